"""Scripts and parameters that are too large for an argument or an environment variable."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Result
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from support.fakes.leases import a_lease


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "work", kill_seconds=0.3)


def run(runtime: Runtime, type: str = "shell", content: Any = None, **more: Any) -> Result:
    return execute(a_lease(type, content, **more), runtime, threading.Event())


def engine_fields(params: dict[str, Any], **environ: str) -> dict[str, Any]:
    """The fields of a lease in which the engine passes parameters: `params` and `environ`."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}
    return {"params": params, "environ": {**texts, "SHARDMILL_PARAMS": json.dumps(params), **environ}}


@pytest.mark.parametrize("size", [100, 99_900, 131_072, 900_000])
def test_a_script_of_any_size_runs(runtime: Runtime, size: int) -> None:
    content = "echo begun\n" + "# ü".ljust(size, "x") + "\necho ended; exit 3"
    result = run(runtime, content=content)
    assert (result.stdout, result.exit_code) == ("begun\nended\n", 3)
    assert list(runtime.root.iterdir()) == []


def test_parameters_are_always_in_the_params_file(runtime: Runtime) -> None:
    result = run(
        runtime, content="cat $SHARDMILL_PARAMS_FILE; echo; echo $day", **engine_fields({"day": "x"})
    )
    assert result.stdout == '{"day": "x"}\nx\n'
    assert run(runtime, content="cat $SHARDMILL_PARAMS_FILE").stdout == "{}"


def test_parameters_too_large_for_the_environment_are_only_in_the_params_file(runtime: Runtime) -> None:
    params = {"big": "x" * 150_000, "small": "s"}
    content = 'echo "${big-none} $small ${SHARDMILL_PARAMS-none}"; wc -c < $SHARDMILL_PARAMS_FILE'
    result = run(runtime, content=content, **engine_fields(params))
    assert (result.stdout or "").split() == ["none", "s", "none", str(len(json.dumps(params)))]


def test_parameters_that_together_exceed_the_environment_are_left_out(runtime: Runtime) -> None:
    params = {f"p{n}": "x" * (60_000 + n) for n in range(40)} | {"small": "s"}
    result = run(runtime, content="env | grep -c ^p; echo $small", **engine_fields(params))
    count, small = (result.stdout or "").split()
    assert 0 < int(count) < 40
    assert small == "s"


def test_a_python_function_gets_parameters_of_any_size(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def main(task):\n    print(len(task['params']['big']))\n")
    runtime = replace(runtime, programs=Programs(python_path=(str(tmp_path),)))
    assert run(runtime, "python", "job:main", **engine_fields({"big": "x" * 500_000})).stdout == "500000\n"


@pytest.mark.parametrize("size", [100_001, 3_000_000])
def test_a_variable_of_the_definition_that_is_too_large_is_an_invalid_task(
    runtime: Runtime, size: int
) -> None:
    result = run(runtime, content=":", **engine_fields({"KEY": "other"}, KEY="x" * size))
    assert result.outcome == "failed-permanent"
    assert result.reason == (
        f"the environment variable 'KEY' has {size + 3} bytes; the maximum is 100000: "
        "pass it as a parameter and read $SHARDMILL_PARAMS_FILE"
    )
