"""References `@name` in the arguments of commands, from the definition to the worker."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from shardmill.model.definition import consistency
from shardmill.worker.task.task_files import with_paths
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

# Two tasks of a document for seed 002's system, in the spelling of definitions.
PREPROCESS: dict[str, Any] = {
    "stepName": "preprocess",
    "command": {
        "name": "awe_preprocess.pl",
        "args": "-input=@{{ params.inputfile }} -output={{ params.jobname }}.prep.fna",
        "description": "preprocess",
    },
    "inputs": [{"name": "{{ params.inputfile }}", "url": "https://shock.test/node/1"}],
    "outputs": [{"name": "{{ params.jobname }}.prep.fna"}],
}
SCREEN: dict[str, Any] = {
    "stepName": "screen",
    "command": {"name": "awe_bowtie_screen.pl", "args": "-input=@{{ params.jobname }}.prep.fna -index=@db/*"},
    "inputs": [{"name": "{{ params.jobname }}.prep.fna", "origin": "preprocess"}],
    "predata": [{"name": "db/h_sapiens.1", "url": "https://shock.test/node/2"}],
}
PARAMS = {"inputfile": "reads 1.fna", "jobname": "job7"}


def test_an_argument_is_rendered_and_keeps_its_reference(runner: JobRunner) -> None:
    runner.define(PREPROCESS, SCREEN, params=PARAMS)
    runner.submit()
    [lease] = runner.take(1)
    assert lease.command is not None
    assert shlex.split(lease.command.args or "") == ["-input=@reads 1.fna", "-output=job7.prep.fna"]
    ready = with_paths(lease, ["reads 1.fna"], ["job7.prep.fna"])
    assert ready.command is not None
    assert ready.command.args_array == ["-input=reads 1.fna", "-output=job7.prep.fna"]


def test_a_value_never_refers_to_a_file(runner: JobRunner) -> None:
    command = {"name": "x", "args": "--to {{ params.mail }} @{{ params.file }}"}
    array = {"name": "x", "argsArray": ["--to={{ params.mail }}", "@in.csv"]}
    inputs = [{"name": "{{ params.file }}", "url": "https://x.test/y"}]
    runner.define(
        {"stepName": "a", "command": command, "inputs": inputs},
        {"stepName": "b", "command": array, "inputs": inputs},
        params={"mail": "@in.csv", "file": "in.csv"},
    )
    runner.submit()
    for lease in runner.take(2):
        ready = with_paths(lease, ["in.csv"])
        assert ready.command is not None
        assert ready.command.args_array is not None
        assert ready.command.args_array[-2:] in (["@in.csv", "in.csv"], ["--to=@in.csv", "in.csv"])


def test_a_reference_that_a_parameter_makes_unknown_is_rejected_when_submitted(runner: JobRunner) -> None:
    command = {"name": "x", "args": "-input=@{{ params.file }}"}
    runner.define(
        {"stepName": "a", "command": command, "inputs": [{"name": "reads.fna", "url": "https://x.test/y"}]},
        params={"file": "reads.fna"},
    )
    answer = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "orders", "trigger": "t1", "params": {"file": "raeds.fna"}}
    )
    assert answer.status == 422
    assert "@raeds.fna in the arguments is not a file of this step" in answer.text
    runner.submit()


@pytest.mark.parametrize("form", ["direct", "http"])
def test_a_plain_at_sign_reaches_a_program_without_files(runner: JobRunner, form: str) -> None:
    runner.define(
        {"stepName": "a", "command": {"name": "echo", "args": "ops@@example.com {{ params.mail }} @"}},
        params={"mail": "a@b"},
    )
    runner.submit()
    with worker_thread(connect(runner.cloud, form)):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    assert runner.task("a", 0)["stdout"] == "ops@example.com a@b @\n"


def test_a_definition_saved_before_names_were_checked_keeps_its_arguments(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(consistency, "_argument_faults", lambda _: ())
        runner.define({"stepName": "a", "command": {"name": "echo", "args": "user@host:/x @in.csv a@@b"}})
    runner.submit()
    [lease] = runner.take(1)
    ready = with_paths(lease)
    assert ready.command is not None
    assert ready.command.args_array == ["user@host:/x", "@in.csv", "a@b"]
