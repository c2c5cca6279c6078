"""rerun and recompute with --wait."""

import json

import pytest

from support.fakes.api import (
    FakeApi,
    Run,
    job,
    page,
    step,
    task,
)

JOB = "/v1/jobs/report/t1"

WHO = ["report", "t1"]


@pytest.mark.parametrize("command", [["rerun", *WHO], ["recompute", *WHO, "main"]])
def test_rerun_waits_for_the_new_run(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", f"{JOB}:{command[0]}", job("INIT", run=2))
    states = job("RUNNING", step(), run=2), job("SUCCESS", step(state="SUCCESS", done=4), run=2)
    api.on("GET", JOB, *states)
    result = run(*command, "--wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("report t1 SUCCESS\n")
    assert result.stderr.splitlines()[0] == "shardmill: started run 2 of report/t1"
    assert "step main RUNNING (0 of 4 tasks)" in result.stderr
    api.on("GET", JOB, *states)
    assert json.loads(run(*command, "--wait", "--json").stdout)["state"] == "SUCCESS"


def test_failed_new_run_exits_4_with_the_reason(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:rerun", job("INIT", run=2))
    api.on("GET", JOB, job("FAILED", step(state="FAILED"), run=2))
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(5, "FAILED")))
    api.on("GET", f"{JOB}/steps/main/tasks/5", task(5, "FAILED", reason="exit code 3"))
    for more in ([], ["--json"]):
        result = run("rerun", *WHO, "--wait", *more)
        assert result.exit_code == 4
        assert "task 5 of step main failed: exit code 3" in result.stderr


def test_timeout_while_waiting_exits_5(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{JOB}:rerun", job("INIT", run=2))
    api.on("GET", JOB, job("RUNNING", run=2))
    assert run("rerun", *WHO, "--wait", "--timeout", "0").exit_code == 5
