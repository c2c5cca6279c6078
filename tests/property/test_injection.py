"""No value of a request becomes code: in shell text, in arguments, in the environment, or as a file name.

The places are computed from what a template can refer to and from the templates of a step, so that a new
variable or a new field is tested without a change here, or fails the test that lists them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine.tasks.work_item import Receipt, work_item
from shardmill.engine.template_context import context_of
from shardmill.model.blocks import Shard
from shardmill.model.request import check_request
from shardmill.model.states import StepState, TaskState
from shardmill.model.time.schedule import check_schedule
from shardmill.model.worker import Lease
from shardmill.store.rows import StepRow

PAYLOADS = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\ntouch pwned\n",
    "a & touch pwned",
    "${IFS}touch${IFS}pwned",
    "\\'; touch pwned #",
    "{{ params.other }}",
    "}} touch pwned {{",
    "@other.txt",
    "--option",
    "*",
    "~root",
    "",
    "é\u202e\ufeff\x7f",
]
TEXT = st.one_of(
    st.sampled_from(PAYLOADS),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20),
    st.text(st.sampled_from("'\"`$(){}\\;&|<>!#*?~ \n\t%-=a"), max_size=20),
)
NAMES_THAT_ARE_CHECKED = {"job.name", "job.trigger", "job.id", "job.dataTime", "step.name", "task.id"}
"""What a template can refer to whose characters are limited when it is saved or submitted."""
NUMBERS = {"shard.index", "shard.total"}


def step_with(value: Any, **spec: Any) -> StepRow:
    """A step with values from other users only: parameters, items, and outputs of another step."""
    return StepRow(
        job_id="j",
        run=1,
        index=0,
        name="a",
        state=StepState.READY,
        job_name="job",
        trigger="t1",
        create_time=1,
        total=1,
        spec={
            "stepName": "a",
            "params": {"given": value, "list": [value], "map": {"k": value}, "other": "SECRET"},
            **spec,
        },
        context={
            "items": [value],
            "dataTime": "2026-01-01T00:00:00+00:00",
            "steps": {"up": {"output": value, "state": "SUCCESS", "counts": {"FAILED": 0}}},
        },
    )


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The expressions of all values that a template can refer to."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from leaves(each, f"{path}[{at}]")
    else:
        yield path


def variables() -> list[str]:
    step = step_with("x", content="true")
    return [each for each in leaves(context_of(step, step.define, 0)) if each != "params.other"]


FOREIGN = [
    name
    for name in variables()
    if name not in NAMES_THAT_ARE_CHECKED | NUMBERS
    and not name.startswith(("steps.up.state", "steps.up.counts"))
]


def lease_of(step: StepRow) -> Lease:
    shard = Shard(TaskState.RUNNING, 1, "w.1", 1)
    return work_item(step, 0, shard, Receipt(1, "q", "h", shard), 60)


def run(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Run shell text in an empty folder; return the words that it printed."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            ["bash", "-c", text],
            cwd=folder,
            capture_output=True,
            timeout=20,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **(environ or {})},
            check=False,
        )
        assert list(Path(folder).iterdir()) == [], text
    assert ran.returncode == 0, ran.stderr
    return [word.decode() for word in ran.stdout.split(b"\0")[:-1]]


def test_every_template_variable_is_known_to_these_tests() -> None:
    """A new variable is either tested below, or has names of checked characters."""
    assert set(FOREIGN) == {"params.given", "params.list[0]", "params.map.k", "item", "steps.up.output"}


@pytest.mark.parametrize("name", FOREIGN)
@settings(max_examples=25, deadline=None)
@given(value=TEXT)
def test_a_value_in_shell_text_is_one_word(name: str, value: str) -> None:
    where = f"{{{{ {name} }}}}"
    text = f"printf '%s\\0' {where} \"{where}\" '{where}' a{where}b # {where}\nprintf '%s\\0' end"
    lease = lease_of(step_with(value, type="shell", content=text))
    assert lease.fault is None
    assert run(lease.content or "") == [value, value, value, f"a{value}b", "end"]


@pytest.mark.parametrize("name", FOREIGN)
@settings(max_examples=25, deadline=None)
@given(value=TEXT)
def test_a_value_in_a_command_is_one_argument_and_no_template(name: str, value: str) -> None:
    where = f"{{{{ {name} }}}}"
    command = {
        "name": "./tool",
        "argsArray": ["--one", where, f"-x={where}"],
        "environ": {"public": {"GIVEN": where, "FIXED": "1"}},
    }
    lease = lease_of(step_with(value, type="shell", command=command))
    assert lease.fault is None
    assert lease.command is not None
    # An @ of a value never refers to a file: the worker turns @@ into @.
    plain = [each.replace("@@", "@") for each in lease.command.args_array or []]
    assert plain == ["--one", value, f"-x={value}"]
    assert lease.environ["GIVEN"] == value
    assert lease.environ["FIXED"] == "1"


HOSTILE_VARIABLES = [
    *("PATH", "HOME", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH"),
    *("GLOBIGNORE", "POSIXLY_CORRECT", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"),
    *("LOCPATH", "NLSPATH", "PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS"),
    *("LUA_INIT", "LUA_PATH", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE_USER", "JAVA_TOOL_OPTIONS"),
    *("_JAVA_OPTIONS", "CLASSPATH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "EDITOR", "VISUAL", "PAGER"),
    *("BROWSER", "LESSOPEN", "OPENSSL_CONF", "OPENSSL_MODULES", "SSL_CERT_FILE", "CURL_HOME", "WGETRC"),
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"),
    *("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "SHARDMILL_TASK_ID", "DOCKER_HOST", "TMPDIR", "TZDIR"),
    *("MALLOC_CHECK_", "GLIBC_TUNABLES", "HOSTALIASES", "RESOLV_HOST_CONF", "MANPAGER", "SHELL"),
]


@pytest.mark.parametrize("name", HOSTILE_VARIABLES)
def test_a_parameter_cannot_be_a_variable_that_changes_what_programs_run(name: str) -> None:
    step = step_with("x", type="shell", content="true")
    step = step.evolve(spec={**step.spec, "params": {name: "$(touch pwned)", "fine": "yes"}})
    environ = lease_of(step).environ
    assert environ.get(name) != "$(touch pwned)"
    assert environ["fine"] == "yes"


def test_parameters_with_the_names_of_shell_options_run_nothing() -> None:
    step = step_with("x", type="shell", content="printf '%s\\0' done")
    step = step.evolve(spec={**step.spec, "params": {"SHELLOPTS": "xtrace", "PS4": "$(touch pwned)"}})
    lease = lease_of(step)
    assert run(lease.content or "", lease.environ) == ["done"]
    assert not {"SHELLOPTS", "PS4"} & lease.environ.keys()


@pytest.mark.parametrize("value", [each for each in PAYLOADS if each != "--option"])
def test_names_are_checked_where_they_enter(value: str) -> None:
    """Triggers, names of jobs and steps, schedules and submitted files have no characters of a shell."""
    requests: list[dict[str, Any]] = [
        {"jobName": "job", "trigger": value},
        {"jobName": value, "trigger": "t"},
        {"jobName": "job", "trigger": "t", "steps": [{"stepName": value}]},
        {"jobName": "job", "trigger": "t", "dataTime": value or "x"},
    ]
    for request in requests:
        found, faults = check_request(request, None)
        assert found is None, request
        assert faults
    schedule, faults = check_schedule({"cron": "0 1 * * *"}, "job", value)
    assert schedule is None
    assert faults
