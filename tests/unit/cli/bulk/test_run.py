"""Commands for many jobs."""

import json
from typing import Any

import pytest

from shardmill.cli.bulk import run as run_module
from support.fakes.api import FakeApi, Reply, Run, job, page, problem


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_is_terminal", lambda: True)


REFUSAL = problem(409, "job-ended", "the Job report/t6 has ended as SUCCESS")


def test_a_dry_run_shows_what_the_server_would_do(api: FakeApi, run: Run) -> None:
    result = run("kill", "--job", "report", "--state", "RUNNING", "--reason", "enough", "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "report t6 RUNNING\n  kill changes it.\n")
    assert result.stderr == "shardmill: dry run: 1 job would change, 0 would not, 0 would refuse\n"
    assert api.request_lines == ["GET /v1/jobs", "POST /v1/jobs:dry-run"]
    assert api.requests[-1].document == {
        "action": "kill",
        "jobs": [{"jobName": "report", "trigger": "t6"}],
        "request": {"reason": "enough"},
    }


def test_a_dry_run_that_a_job_would_refuse_fails_as_the_command_would(api: FakeApi, run: Run) -> None:
    item = {"jobName": "report", "trigger": "t3", "status": 409}
    api.on(
        "POST", "/v1/jobs:dry-run", {"items": [{**item, "problem": {"code": "x", "detail": "it has ended"}}]}
    )
    result = run("kill", "--job", "report", "--state", "SUCCESS", "--dry-run")
    assert (result.exit_code, result.stdout) == (1, "report t3\n  refused: it has ended\n")


@pytest.mark.parametrize(
    ("command", "action", "request_"),
    [
        (["suspend", "--job", "report", "--let-finish"], "suspend", {"letFinish": True}),
        (["resume", "--job", "report"], "resume", {}),
        (["start", "--job", "mail", "--without-dependencies"], "start", {}),
        (["rerun", "--job", "report", "--all"], "rerun", {"scope": "all"}),
        (["recompute", "main", "--job", "report"], "recompute", {"stepName": "main"}),
        (["force", "SUCCESS", "--job", "report"], "force", {"state": "SUCCESS"}),
        (["change", "--job", "report", "--group", "big"], "change", {"workerGroups": ["big"]}),
        (["priority", "10", "--job", "report"], "priority", {"priority": 10}),
        (["delete", "--job", "report", "--full"], "delete", {"full": True}),
    ],
)
def test_every_command_is_tried_with_its_own_request(
    api: FakeApi, run: Run, command: list[str], action: str, request_: dict[str, Any]
) -> None:
    assert run(*command, "--dry-run").exit_code == 0
    [sent] = [each.document for each in api.requests if each.method == "POST"]
    assert (sent["action"], sent["request"]) == (action, request_)
    assert api.changed_jobs == []


def test_each_job_gets_its_own_request(api: FakeApi, run: Run) -> None:
    result = run("kill", "--job", "report", "--yes", "--reason", "enough")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["JOB", "TRIGGER", "RUN", "STATE", "RESULT"],
        ["report", "t6", "2", "KILLED", "done"],
        ["report", "t5", "2", "KILLED", "done"],
    ]
    assert result.stderr.splitlines() == [
        "shardmill: kill: 1 done, 0 refused of 2",
        "shardmill: kill: 2 done, 0 refused of 2",
    ]
    assert api.changed_jobs == ["report/t6:kill", "report/t5:kill"]
    assert [each.document for each in api.requests if each.method == "POST"] == [{"reason": "enough"}] * 2


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (["suspend", "--job", "report"], "suspend"),
        (["resume", "--job", "report"], "resume"),
        (["rerun", "--job", "report"], "rerun"),
        (["kill", "--job", "report", "--step", "main", "--index", "3"], "kill"),
        (["recompute", "main", "--job", "report"], "recompute"),
        (["force", "SUCCESS", "--job", "report", "--step", "main", "--index", "3"], "force"),
        (["change", "--job", "report", "--step", "main", "--group", "big"], "change"),
        (["priority", "10", "--job", "report"], "priority"),
    ],
)
def test_every_verb_applies_to_many_jobs(api: FakeApi, run: Run, command: list[str], verb: str) -> None:
    assert run(*command, "--yes").exit_code == 0
    assert len(api.changed_jobs) >= 1
    assert all(path.endswith(f":{verb}") for path in api.changed_jobs)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (["recompute", "main", "--reason", "r"], {"stepName": "main", "reason": "r"}),
        (["force", "success", "--reason", "r"], {"state": "SUCCESS", "reason": "r"}),
        (["priority", "-1"], {"priority": -1}),
        (["change", "--timeout", "60", "--reason", "r"], {"timeoutSeconds": 60, "reason": "r"}),
    ],
)
def test_each_job_is_sent_the_same_request(api: FakeApi, run: Run, command: list[str], sent: Any) -> None:
    assert run(*command, "--state", "FAILED", "--state", "SUCCESS", "--yes").exit_code == 0
    assert [each.document for each in api.requests if each.method == "POST"] == [sent] * 3


def test_many_jobs_are_deleted(api: FakeApi, run: Run) -> None:
    refused = problem(404, "job-not-found", "there is no Job of 'report' with the trigger 't4'")
    api.on("DELETE", "/v1/jobs/report/t4", refused)
    result = run("delete", "--job", "report", "--full", "--yes")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["report", "t3", "1", "DELETED", "done"],
        ["report", "t4", "1", "FAILED", "refused"],
    ]
    assert [each.query for each in api.requests if each.method == "DELETE"] == [{"full": "true"}] * 2


def test_refusal_of_one_job_is_reported_and_the_others_continue(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs/report/t6:kill", REFUSAL)
    result = run("kill", "--job", "report", "--yes")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["report", "t6", "1", "RUNNING", "refused"],
        ["report", "t5", "2", "KILLED", "done"],
    ]
    assert result.stderr.splitlines() == [
        "shardmill: report/t6 refused: the Job report/t6 has ended as SUCCESS",
        "shardmill: kill: 0 done, 1 refused of 2",
        "shardmill: kill: 1 done, 1 refused of 2",
    ]


def test_refusals_are_part_of_the_json_output(api: FakeApi, run: Run) -> None:
    api.on("POST", "/v1/jobs/report/t6:kill", REFUSAL)
    result = run("kill", "--job", "report", "--yes", "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert first == {
        "jobName": "report",
        "trigger": "t6",
        "run": 1,
        "state": "RUNNING",
        "done": False,
        "code": "job-ended",
        "detail": "the Job report/t6 has ended as SUCCESS",
    }
    assert (second["done"], second["code"], second["state"]) == (True, None, "KILLED")


@pytest.mark.parametrize("status", [404, 422, 429, 503])
def test_errors_about_one_job_are_refusals(api: FakeApi, run: Run, status: int) -> None:
    api.on("POST", "/v1/jobs/report/t3:rerun", problem(status, "some-code", "not this one"))
    result = run("rerun", "--job", "report", "--all", "--yes")
    assert (result.exit_code, api.changed_jobs) == (1, ["report/t3:rerun", "report/t4:rerun"])
    assert "report/t3 refused: not this one" in result.stderr


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_error_about_all_jobs_stops_the_command(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("POST", "/v1/jobs/report/t5:kill", Reply({"message": "Forbidden"}, 403))
    result = run("kill", "--job", "report", "--state", "RUNNING", "--state", "SUSPENDED", "--yes", *more)
    assert result.exit_code == 1
    if more:
        assert [each["trigger"] for each in json.loads(result.stdout)] == ["t6"]
    assert "stopped early: kill not attempted for 1 job" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("returned 403: Forbidden")


def test_empty_selection_exits_0(api: FakeApi, run: Run) -> None:
    result = run("kill", "--job", "missing", "--yes", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert result.stderr == "shardmill: no jobs to kill match the selection\n"


@pytest.mark.usefixtures("terminal")
def test_confirmation_on_a_terminal(api: FakeApi, run: Run) -> None:
    result = run("kill", "--since", "2026-01-06", input="y\n")
    assert result.exit_code == 0
    assert "kill 3 jobs (1 of audit, 1 of report, 1 of mail)? [y/N] " in result.stderr
    assert len(api.changed_jobs) == 3


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("typed", ["n\n", "\n", "", "yesterday\n"])
def test_anything_but_yes_cancels(api: FakeApi, run: Run, typed: str) -> None:
    result = run("kill", "--job", "report", "--json", input=typed)
    assert (result.exit_code, result.stdout, api.changed_jobs) == (1, "", [])
    assert result.stderr == "kill 2 jobs (2 of report)? [y/N] shardmill: cancelled; no job was changed\n"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("more", [["--yes"], ["-y"], ["--dry-run"], ["--state", "DELETED"]])
def test_no_confirmation_is_asked_without_need(run: Run, more: list[str]) -> None:
    assert "[y/N]" not in run("kill", "--job", "report", *more).output


@pytest.mark.usefixtures("terminal")
def test_confirmation_names_at_most_five_definitions(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(*(job("RUNNING", jobName=f"j{n}", jid=n) for n in range(9))))
    result = run("kill", "--state", "RUNNING", input="n\n")
    assert "kill 9 jobs (1 of j8, 1 of j7, 1 of j6, 1 of j5, 1 of j4, …)?" in result.stderr
