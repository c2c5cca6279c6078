"""submit, jobs, job and watch."""

import json
from pathlib import Path

import pytest

from shardmill.engine.errors import DefinitionSuspended
from support.fakes.api import (
    NOW,
    FakeApi,
    Reply,
    Run,
    job,
    page,
    problem,
    step,
    task,
)

JOB = "/v1/jobs/report/t1"


def test_submit_sends_trigger_and_params(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    result = run(
        *["submit", "report", "--trigger", "t1", "--param", "a=1=2", "--param", "b="],
        *["--step-param", "main.k.l=v", "--step-param", "main.m=w", "--step-param", "other.k=x"],
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "report t1 INIT\n", "")
    assert api.requests[0].document == {
        "jobName": "report",
        "trigger": "t1",
        "params": {"a": "1=2", "b": ""},
        "steps": [
            {"stepName": "main", "params": {"k.l": "v", "m": "w"}},
            {"stepName": "other", "params": {"k": "x"}},
        ],
    }
    assert json.loads(run("submit", "report", "--json").stdout)["jobName"] == "report"


def test_submit_takes_the_trigger_as_an_argument_like_other_commands(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    assert run("submit", "report", "t1").exit_code == 0
    assert api.requests[0].document == {"jobName": "report", "trigger": "t1"}
    twice = run("submit", "report", "t1", "--trigger", "t2")
    assert twice.exit_code == 2
    assert "give the trigger once" in twice.stderr
    assert len(api.requests) == 1


def test_submit_reads_the_data_token_from_a_file(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    (tmp_path / "token").write_text("s3cret\n")
    result = run("submit", "report", "--trigger", "t1", "--data-token-file", str(tmp_path / "token"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "report t1 INIT\n", "")
    assert api.requests[0].document == {"jobName": "report", "trigger": "t1", "dataToken": "s3cret"}
    assert run("submit", "report", "--data-token-file", str(tmp_path / "none")).exit_code == 2


def test_submit_sends_settings_of_steps_times_and_priority(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    result = run(
        *["submit", "report", "--trigger", "t1", "--step-param", "main.k=v", "--step", "main.sharding=6"],
        *[
            "--step",
            "mail.ignore=true",
            "--step",
            "mail.workerGroup=big",
            "--step",
            'main.packConf={"end": 9}',
        ],
        *["--data-time", "2026-01-21", "--after", "2026-01-21T18:00:00+01:00"],
        *["--deadline", "2h", "--priority", "0"],
    )
    assert result.exit_code == 0, result.stderr
    assert api.requests[0].document == {
        "jobName": "report",
        "trigger": "t1",
        "steps": [
            {"stepName": "main", "params": {"k": "v"}, "sharding": 6, "packConf": {"end": 9}},
            {"stepName": "mail", "ignore": True, "workerGroup": "big"},
        ],
        "dataTime": "2026-01-21T00:00:00.000Z",
        "after": "2026-01-21T17:00:00.000Z",
        "deadlineSeconds": 7200,
        "priority": 0,
    }
    assert run("submit", "report", "--step", "main=6").exit_code == 2
    assert run("submit", "--requests", "-", "--priority", "0").exit_code == 2


def test_submit_waits_for_success(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING", step()), job("SUCCESS", step(state="SUCCESS", done=4)))
    result = run("submit", "report", "--trigger", "t1", "--wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("report t1 SUCCESS\n")
    assert "step main RUNNING (0 of 4 tasks)" in result.stderr
    assert "job report/t1 SUCCESS" in result.stderr


@pytest.mark.parametrize("more", [[], ["--json"], ["--wait"]])
def test_submit_of_an_identical_request_reports_the_existing_job(
    api: FakeApi, run: Run, more: list[str]
) -> None:
    api.on("POST", "/v1/jobs", Reply(job("SUCCESS"), 200))
    api.on("GET", JOB, job("SUCCESS"))
    result = run("submit", "report", "--trigger", "t1", *more)
    assert result.exit_code == 0
    assert "report/t1 already exists" in result.stderr
    assert "submitted" not in result.stderr
    assert "exists" not in result.stdout


def test_submit_wait_json_prints_one_document(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING"), job("SUCCESS"))
    result = run("submit", "report", "--trigger", "t1", "--wait", "--json")
    assert json.loads(result.stdout)["state"] == "SUCCESS"


@pytest.mark.parametrize(
    "command", [["watch", "report", "t1"], ["submit", "report", "--trigger", "t1", "--wait"]]
)
def test_failed_job_exits_4_with_the_reason(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on(
        "GET",
        JOB,
        job("FAILED", step("ok", "SUCCESS"), step("main", "FAILED", index=1), notes="main: 2 failed"),
    )
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(5, "FAILED")))
    api.on("GET", f"{JOB}/steps/main/tasks/5", task(5, "FAILED", reason="exit code 3", stderr="one\ntwo\n"))
    result = run(*command)
    assert result.exit_code == 4
    assert "job report/t1 is FAILED" in result.stderr
    assert "task 5 of step main failed: exit code 3\nshardmill:   one\nshardmill:   two\n" in result.stderr
    assert "shardmill logs report t1 main 5 --stderr" in result.stderr
    assert "main: 2 failed" in result.stdout


def test_failed_job_shows_the_standard_output_of_a_task_that_wrote_no_errors(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("FAILED", step("main", "FAILED")))
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(5, "FAILED")))
    failed = task(5, "FAILED", reason="exit code 3", stderr="", stdout="".join(f"{n}\n" for n in range(12)))
    api.on("GET", f"{JOB}/steps/main/tasks/5", failed)
    result = run("submit", "report", "--trigger", "t1", "--wait")
    shown = "".join(f"shardmill:   {n}\n" for n in range(2, 12))
    assert f"task 5 of step main failed: exit code 3\n{shown}shardmill: for the full log" in result.stderr
    assert result.stderr.endswith("shardmill logs report t1 main 5\n")


def test_failed_job_exits_4_if_its_tasks_cannot_be_read(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("FAILED", step("main", "FAILED")))
    result = run("watch", "report", "t1")
    assert result.exit_code == 4
    assert "cannot read why step main failed" in result.stderr


@pytest.mark.parametrize("state", ["KILLED", "DELETED"])
def test_killed_or_deleted_job_exits_4(api: FakeApi, run: Run, state: str) -> None:
    api.on("GET", JOB, job(state))
    assert run("watch", "report", "t1").exit_code == 4


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_timeout_while_waiting_exits_5(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("POST", "/v1/jobs", Reply(job("INIT"), 202))
    api.on("GET", JOB, job("RUNNING"))
    result = run("submit", "report", "--trigger", "t1", "--wait", "--timeout", "0.2", *more)
    assert result.exit_code == 5
    assert "is still RUNNING" in result.stderr
    if more:
        assert json.loads(result.stdout)["state"] == "RUNNING"
    assert run("watch", "report", "t1", "--timeout", "0.2", *more).exit_code == 5


def test_watch_json_prints_a_line_per_change(api: FakeApi, run: Run) -> None:
    running = job("RUNNING", step())
    api.on("GET", JOB, running, running, job("RUNNING", step(done=2)), job("SUCCESS"))
    result = run("watch", "report", "t1", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["state"] for each in found] == ["RUNNING", "RUNNING", "SUCCESS"]
    assert [step["remainWork"] for each in found for step in each["steps"]] == [4, 2]
    assert result.stderr == ""


def test_jobs_are_filtered_and_limited(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(job(jid=3), job(jid=2), cursor="more"))
    result = run("jobs", "--job", "report", "--state", "failed", "--user", "bob", "--limit", "3", "--json")
    assert [each["jid"] for each in json.loads(result.stdout)] == [3, 2, 3]
    assert api.requests[0].query == {
        "jobName": "report",
        "state": "FAILED",
        "submitUser": "bob",
        "limit": "3",
    }


def test_jobs_are_listed_as_a_table(api: FakeApi, run: Run) -> None:
    times = {"startedTime": "2026-11-16T02:17:29.123Z", "completedTime": "2026-11-16T03:19:20.123Z"}
    api.on("GET", "/v1/jobs", page(job("SUCCESS", **times), job("RUNNING")))
    lines = run("jobs").stdout.splitlines()
    assert lines[0].split() == ["JOB", "TRIGGER", "STATE", "SUBMITTED", "DURATION", "USER"]
    assert lines[1].split() == ["report", "t1", "SUCCESS", "2026-11-16T02:17:19Z", "1:01:51", "admin"]
    assert lines[2].split() == ["report", "t1", "RUNNING", "2026-11-16T02:17:19Z", "-", "admin"]


def test_job_shows_params_and_steps(api: FakeApi, run: Run) -> None:
    counts = {"SUCCESS": 2, "FAILED": 1}
    api.on("GET", JOB, job("RUNNING", step(done=3, counts=counts), params={"a": "x\n"}))
    text = run("job", "report", "t1").stdout
    assert "params     a=x" in text
    assert text.splitlines()[-1].split() == ["main", "RUNNING", "4", "3", "1", "-", "-"]
    found = json.loads(run("job", "report", "t1", "--json").stdout)
    assert found["steps"][0]["counts"] == counts
    assert found["createTime"] == NOW


def test_earlier_run_is_shown(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING", step("old", "FAILED"), run=1))
    api.on("GET", f"{JOB}/steps/main/tasks", page(task(0)))
    api.on("GET", f"{JOB}/steps/main/tasks/0", task(0))
    assert "run 1," in run("job", "report", "t1", "--run", "1").stdout
    run("tasks", "report", "t1", "main", "--run", "1", "--limit", "1")
    run("tasks", "report", "t1", "main", "0", "--run", "1")
    assert [each.query for each in api.requests] == [{"run": "1"}, {"run": "1", "limit": "1"}, {"run": "1"}]


def test_showing_a_failed_job_exits_0(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("FAILED"))
    assert run("job", "report", "t1").exit_code == 0


def test_submit_to_a_suspended_definition_is_refused(api: FakeApi, run: Run) -> None:
    refused = DefinitionSuspended("report", "suspended by bob: a disk")
    api.on("POST", "/v1/jobs", problem(409, refused.code, refused.detail))
    result = run("submit", "report", "--trigger", "t1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "shardmill: the definition 'report' was suspended by bob: a disk; "
        "no new Jobs of it start until `shardmill definitions resume report`\n"
    )
