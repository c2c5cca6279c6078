"""Progress and output that a task writes, and the limits of a worker."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.job import TaskProgress
from shardmill.model.worker import MAX_OUTPUT_BYTES, Lease, Result, output_size
from shardmill.worker.task import bounds
from shardmill.worker.task.channel import BadOutput, LiveStatus, parse_output, parse_progress, read_progress
from shardmill.worker.task.execute import Limits, Runtime, execute
from shardmill.worker.task.programs import Programs
from support.fakes.leases import a_lease


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "work", kill_seconds=0.3)


def run(lease: Lease, runtime: Runtime, **more: Any) -> Result:
    return execute(lease, runtime, threading.Event(), **more)


# Output


@pytest.mark.parametrize("value", [{"rows": 12, "name": "é"}, [1, 2.5, None], "text", 0, False])
def test_the_json_written_by_a_task_is_its_output(runtime: Runtime, value: Any) -> None:
    text = json.dumps(value)
    result = run(
        a_lease(content='printf "%s" "$V" > "$SHARDMILL_OUTPUT"; echo said', environ={"V": text}), runtime
    )
    assert (result.outcome, result.stdout, result.output) == ("success", "said\n", value)
    assert json.loads(result.model_dump_json())["output"] == value


@pytest.mark.parametrize("content", [":", ": > $SHARDMILL_OUTPUT", "echo null > $SHARDMILL_OUTPUT"])
def test_a_missing_empty_or_null_output_is_none(runtime: Runtime, content: str) -> None:
    result = run(a_lease(content=content), runtime)
    assert (result.outcome, result.output) == ("success", None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("echo {a > $SHARDMILL_OUTPUT", "the output is not JSON: "),
        (
            "(echo '\"'; head -c 70000 /dev/zero | tr '\\0' x; echo '\"') | tr -d '\\n' > $SHARDMILL_OUTPUT",
            "the output has more than 65536 bytes",
        ),
        ("head -c 2000000 /dev/zero > $SHARDMILL_OUTPUT", "the output has more than 65536 bytes"),
        ("echo '[1e999]' > $SHARDMILL_OUTPUT", "the output cannot be stored: /0 must be a finite number"),
        ("mkdir $SHARDMILL_OUTPUT", "cannot read the output in $SHARDMILL_OUTPUT: it is not a regular file"),
        (
            "mkfifo $SHARDMILL_OUTPUT",
            "cannot read the output in $SHARDMILL_OUTPUT: it is not a regular file",
        ),
        ("ln -s /etc/hostname $SHARDMILL_OUTPUT", "cannot read the output in $SHARDMILL_OUTPUT: "),
    ],
)
def test_an_output_that_cannot_be_stored_fails_the_attempt(
    runtime: Runtime, content: str, reason: str
) -> None:
    result = run(a_lease(content=content), runtime)
    assert (result.outcome, result.output, result.exit_code) == ("failed", None, 0)
    assert (result.reason or "").startswith(reason)


def test_a_failed_task_has_no_output(runtime: Runtime) -> None:
    result = run(a_lease(content="echo '{' > $SHARDMILL_OUTPUT; exit 3"), runtime)
    assert (result.outcome, result.reason, result.output) == ("failed", "exit code 3", None)


@given(
    st.binary(max_size=200) | st.sampled_from([b'"\\ud800"', b"[" * 9999, b"[" * 40 + b"]" * 40, b"9" * 99])
)
def test_any_accepted_output_can_be_serialised(data: bytes) -> None:
    try:
        value = parse_output(data)
    except BadOutput:
        return
    result = Result(task_id="t", attempt=1, outcome="success", output=value)
    assert Result.model_validate_json(result.model_dump_json()).output == value


@pytest.mark.parametrize("text", ["é" * 32_767, "x" * 65_534, '"' * 32_767, "xx" + "\U0001f600" * 16_383])
def test_the_size_limit_applies_to_the_compact_form_of_an_output(text: str) -> None:
    """Escapes and spaces of the file do not count; worker and server measure the same."""
    for written in (json.dumps(text), json.dumps(text, ensure_ascii=False), f" \n{json.dumps(text)}\n"):
        value = parse_output(written.encode())
        assert value == text
        assert output_size(value) <= MAX_OUTPUT_BYTES
        with pytest.raises(BadOutput, match="more than 65536 bytes"):
            parse_output(json.dumps([value]).encode() + b" " * 10)


def test_indentation_does_not_count_towards_the_size_limit() -> None:
    rows = [{"name": f"row {number}", "at": number} for number in range(2_000)]
    written = json.dumps(rows, indent=8).encode()
    assert len(written) > MAX_OUTPUT_BYTES
    assert parse_output(written) == rows


@pytest.mark.parametrize(
    ("body", "outcome", "output"),
    [
        ("return {'rows': 3}", "success", {"rows": 3}),
        ("return True", "success", True),
        ("return 'text'", "success", "text"),
        ("return None", "success", None),
        ("return 0", "success", None),
        ("return 75", "rejected", None),
        ("return float('nan')", "success", None),
        ("return object()", "success", None),
        ("open(__import__('os').environ['SHARDMILL_OUTPUT'], 'w').write('1')\n    return 'no'", "success", 1),
        ("return 'x' * 70000", "failed", None),
    ],
)
def test_the_return_value_of_a_python_function_is_its_output(
    runtime: Runtime, tmp_path: Path, body: str, outcome: str, output: Any
) -> None:
    (tmp_path / "job.py").write_text(f"def main():\n    {body}\n")
    runtime = replace(runtime, programs=Programs(python_path=(str(tmp_path),)))
    result = run(a_lease("python", "job:main"), runtime)
    assert (result.outcome, result.output, result.stdout) == (outcome, output, None)
    if "object" in body:
        assert "is not stored as output" in (result.stderr or "")


# Progress


@pytest.mark.parametrize(
    ("line", "percent", "message"),
    [
        ("42", 42, None),
        ("42%", 42, None),
        ("42.5 reading part 3", 42.5, "reading part 3"),
        ("0 begun", 0, "begun"),
        ("100", 100, None),
        ("101 files", None, "101 files"),
        ("reading", None, "reading"),
        ("4x", None, "4x"),
        ('{"percent": 7, "message": "m"}', 7, "m"),
        ('{"percent": 7.5}', 7.5, None),
        ('{"message": "m", "more": 1}', None, "m"),
        ('{"percent": 700, "message": "m"}', None, "m"),
        ('{"percent": true, "message": "m"}', None, "m"),
        ("{broken", None, "{broken"),
        ("50 a\x1b[2Jb", 50, "a [2Jb"),
    ],
)
def test_a_progress_line_is_parsed(line: str, percent: float | None, message: str | None) -> None:
    assert parse_progress(line) == TaskProgress(percent=percent, message=message)


@pytest.mark.parametrize("line", ["", "   ", "{}", '{"percent": "x"}', '{"percent": NaN}', "\x00"])
def test_a_line_without_progress_is_ignored(line: str) -> None:
    assert parse_progress(line) is None


@given(st.text(max_size=500))
def test_any_progress_line_is_parsed_or_ignored(line: str) -> None:
    found = parse_progress(line)
    assert found is None or len(found.message or "") <= 200


def test_the_last_complete_line_is_the_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    assert read_progress(path) is None
    path.write_text("10 a")
    assert read_progress(path) is None
    path.write_text("10 a\n20 b\n3")
    assert read_progress(path) == TaskProgress(percent=20, message="b")
    path.write_text("x" * 100_000 + "\n90\n")
    assert read_progress(path) == TaskProgress(percent=90)
    path.write_bytes(b"50 \xff\n")
    assert read_progress(path) == TaskProgress(percent=50, message="\N{REPLACEMENT CHARACTER}")


def test_progress_is_available_while_the_task_runs(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0.02)
    live, stop = LiveStatus(), threading.Event()
    seen: list[TaskProgress] = []

    def watch() -> None:
        while live.progress is None:
            time.sleep(0.01)
        seen.append(live.progress)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    execute(a_lease(content="echo 42 half way > $SHARDMILL_PROGRESS; sleep 60"), runtime, stop, live=live)
    assert seen == [TaskProgress(percent=42, message="half way")]


# Limits


def test_a_task_is_rejected_above_the_maximum_load(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (7.23, 1.0, 1.0))
    lease = a_lease(content=f"touch {tmp_path}/ran")
    result = run(lease, replace(runtime, limits=Limits(max_load=4)))
    assert (result.outcome, result.reason) == ("rejected", "load 7.2 is above --max-load 4")
    assert not (tmp_path / "ran").exists()
    assert run(lease, replace(runtime, limits=Limits(max_load=7.5))).outcome == "success"


def test_a_task_is_rejected_if_the_disk_is_too_full(runtime: Runtime) -> None:
    result = run(a_lease(content=":"), replace(runtime, limits=Limits(min_disk_mb=10**9)))
    assert result.outcome == "rejected"
    assert (result.reason or "").endswith(
        f"MB free on the disk of {runtime.root} are below --min-disk {10**9}"
    )
    assert run(a_lease(content=":"), replace(runtime, limits=Limits(min_disk_mb=0))).outcome == "success"


def test_limits_do_not_apply_to_noop_tasks(runtime: Runtime) -> None:
    result = run(a_lease("noop"), replace(runtime, limits=Limits(max_load=-1, min_disk_mb=10**9)))
    assert result.outcome == "success"
    assert not runtime.root.exists()
