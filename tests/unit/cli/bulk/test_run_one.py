"""Commands for one job: requests, output, refusals and usage errors."""

import json
from typing import Any

import pytest

from support.fakes.api import (
    FakeApi,
    Run,
    job,
    output_of,
    problem,
    step,
)

JOB = "/v1/jobs/report/t1"

WHO = ["report", "t1"]

FILTERS = "give either JOB and TRIGGER, or at least one of --job"


def usage_with(metavar: str) -> str:
    return f"give either JOB, TRIGGER and {metavar}, or {metavar} and at least one of --job"


@pytest.mark.parametrize(
    ("command", "state", "expected", "sent"),
    [
        (["suspend", *WHO], "SUSPENDED", "report t1 SUSPENDED\n", {"letFinish": False}),
        (
            ["suspend", *WHO, "--let-finish", "--reason", "wrong data"],
            "SUSPENDED",
            "report t1 SUSPENDED\n",
            {"letFinish": True, "reason": "wrong data"},
        ),
        (["resume", *WHO, "--reason", "fixed"], "QUEUED", "report t1 QUEUED\n", {"reason": "fixed"}),
        (["kill", *WHO, "--yes"], "KILLED", "report t1 KILLED\n", {}),
        (
            ["kill", *WHO, "--step", "main"],
            "RUNNING",
            "report t1 RUNNING, step main KILLED\n",
            {"stepName": "main"},
        ),
        (
            ["kill", *WHO, "--step", "main", "--index", "0", "--reason", "r"],
            "RUNNING",
            "report t1 RUNNING, step main KILLED\n",
            {"stepName": "main", "index": 0, "reason": "r"},
        ),
        (["kill", *WHO, "--step", ""], "RUNNING", "report t1 RUNNING\n", {"stepName": ""}),
        (["rerun", *WHO], "INIT", "report t1 INIT run 2\n", {}),
        (["rerun", *WHO, "--step", ""], "INIT", "report t1 INIT run 2\n", {"steps": [""]}),
        (["rerun", *WHO, "--all"], "INIT", "report t1 INIT run 2\n", {"scope": "all"}),
        (
            ["rerun", *WHO, "--step", "a", "--step", "b", "--reason", "r"],
            "INIT",
            "report t1 INIT run 2\n",
            {"steps": ["a", "b"], "reason": "r"},
        ),
        (
            ["rerun", *WHO, "--step", "a", "--shards", "3,7-9"],
            "INIT",
            "report t1 INIT run 2\n",
            {"steps": ["a"], "shards": [3, 7, 8, 9]},
        ),
        (
            ["recompute", *WHO, "main", "--reason", "r"],
            "INIT",
            "report t1 INIT run 2\n",
            {"stepName": "main", "reason": "r"},
        ),
        (
            ["priority", *WHO, "-1", "--reason", "r"],
            "RUNNING",
            "report t1 RUNNING priority 1\n",
            {"priority": -1, "reason": "r"},
        ),
        (
            ["change", *WHO, "--priority", "-3", "--retries", "0"],
            "RUNNING",
            "report t1 RUNNING, all steps: priority -3, retries 0\n",
            {"priority": -3, "failedRetries": 0},
        ),
        (
            ["change", *WHO, "--group", "a", "--group", "b", "--step", "main", "--reason", "r"],
            "QUEUED",
            "report t1 QUEUED, step main: groups a,b\n",
            {"stepName": "main", "workerGroups": ["a", "b"], "reason": "r"},
        ),
        (
            ["change", *WHO, "--max-tasks", "7", "--timeout", "600"],
            "WAITING",
            "report t1 WAITING, all steps: max tasks 7, timeout 600\n",
            {"maxTaskCount": 7, "timeoutSeconds": 600},
        ),
    ],
)
def test_each_command_sends_its_request_and_prints_the_job(
    api: FakeApi, run: Run, command: list[str], state: str, expected: str, sent: Any
) -> None:
    path = f"{JOB}:{command[0]}"
    api.on("POST", path, job(state, step(state="KILLED"), run=2, priority=1))
    assert output_of(run(*command)) == expected
    assert json.loads(output_of(run(*command, "--json")))["state"] == state
    assert api.request_lines == [f"POST {path}"] * 2
    assert [each.document for each in api.requests] == [sent] * 2


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        *((verb, []) for verb in ("suspend", "resume", "kill", "rerun")),
        ("recompute", ["main"]),
        ("force", ["FAILED"]),
        ("priority", ["3"]),
        ("change", ["--retries", "3"]),
    ],
)
def test_refusal_for_one_job_exits_1(api: FakeApi, run: Run, verb: str, more: list[str]) -> None:
    api.on("POST", f"{JOB}:{verb}", problem(409, "job-ended", "the Job report/t1 has ended as SUCCESS"))
    refused = run(verb, *WHO, *more)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "shardmill: the Job report/t1 has ended as SUCCESS\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["kill"], FILTERS),
        (["kill", "--yes"], FILTERS),
        (["kill", "report"], FILTERS),
        (["kill", *WHO, "--job", "report"], FILTERS),
        (["kill", "report", "--state", "RUNNING"], FILTERS),
        (["kill", "bad/name", "t1"], "is not a valid jobName"),
        (["kill", "--job", "", "--yes"], "is not a valid jobName"),
        (["kill", "--job", "a/b", "--dry-run"], "is not a valid jobName"),
        (["kill", *WHO, "--index", "0"], "requires --step"),
        (["kill", *WHO, "--step", "", "--downstream", "--yes"], "cannot be combined with a step"),
        (["kill", *WHO, "--step", "main", "--index", "-1"], "--index"),
        (["kill", *WHO, "--step", "main", "--downstream", "--yes"], "cannot be combined with a step"),
        (["kill", *WHO, "--downstream"], "cannot ask for confirmation without a terminal"),
        (["kill", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["kill", "--state", "NONSENSE", "--yes"], "NONSENSE"),
        (["kill", "--since", "yesterday", "--yes"], "'yesterday' must be a date"),
        (["kill", "--since", "0001-01-01T00:00:00+14:00", "--yes"], "must be a date"),
        (["kill", "--since", "2026-01-02", "--until", "2026-01-02", "--yes"], "must be after --since"),
        (["rerun", *WHO, "--timeout", "3"], "requires --wait"),
        (["rerun", *WHO, "--all", "--step", "a"], "cannot be combined with --step"),
        (["rerun", *WHO, "--shards", "1"], "requires exactly one --step"),
        (["rerun", *WHO, "--step", "a", "--step", "b", "--shards", "1"], "requires exactly one --step"),
        (["rerun", *WHO, "--step", "a", "--shards", "x"], "such as 3,7-9"),
        (["rerun", *WHO, "--step", "a", "--shards", ""], "such as 3,7-9"),
        (["rerun", *WHO, "--step", "a", "--shards", "9-7"], "ends before it starts"),
        (["rerun", *WHO, "--step", "a", "--shards", "0-999999999"], "more than 10,000"),
        (["rerun", "--job", "report", "--wait", "--yes"], "works for a single job only"),
        (["recompute"], usage_with("STEP")),
        (["recompute", *WHO], usage_with("STEP")),
        (["recompute", "--job", "report", "--yes"], usage_with("STEP")),
        (["recompute", *WHO, "main", "--job", "report", "--yes"], usage_with("STEP")),
        (["recompute", *WHO, "--job", "report", "--yes"], usage_with("STEP")),
        (["recompute", "main", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["recompute", "main", "--job", "report", "--wait", "--yes"], "works for a single job only"),
        (["recompute", *WHO, "main", "--downstream", "--yes"], "cannot be combined with a step"),
        (["recompute", *WHO, "main", "--timeout", "3"], "requires --wait"),
        (["force", "SUCCESS"], usage_with("SUCCESS|FAILED")),
        (["force", *WHO], usage_with("SUCCESS|FAILED")),
        (["force", *WHO, "KILLED"], "'KILLED' must be one of SUCCESS, FAILED"),
        (["force", "KILLED", "--job", "report", "--yes"], "'KILLED' must be one of SUCCESS, FAILED"),
        (["force", *WHO, "SUCCESS", "--step", "main", "--downstream"], "cannot be combined with a step"),
        (["force", *WHO, "SUCCESS", "--index", "0"], "requires --step"),
        (["force", "SUCCESS", "--state", "FAILED"], "cannot ask for confirmation without a terminal"),
        (["delete"], FILTERS),
        (["delete", "--job", "report"], "cannot ask for confirmation without a terminal"),
        (["priority", *WHO], usage_with("N")),
        (["priority", *WHO, "high"], "'high' must be an integer"),
        (["priority", "high", "--job", "report", "--yes"], "'high' must be an integer"),
        (["priority", "5", "--job", "report", "--yes", "--dryrun"], usage_with("N")),
        (["priority", "--job", "report", "--yes", "--dryrun"], "'--dryrun' must be an integer"),
        (["change"], "nothing to change: give at least one of --priority, --group"),
        (["change", *WHO, "--step", "main", "--reason", "r"], "nothing to change"),
        (["change", "--retries", "3"], FILTERS),
        (["change", *WHO, "--retries", "-1"], "--retries"),
        (["change", *WHO, "--max-tasks", "0"], "--max-tasks"),
        (["change", *WHO, "--timeout", "0"], "--timeout"),
        (["change", *WHO, "--priority", "high"], "--priority"),
        (["change", "--job", "report", "--retries", "3"], "cannot ask for confirmation without a terminal"),
        (["change", *WHO, "--step", "a", "--retries", "3", "--downstream"], "cannot be combined with a step"),
    ],
)
def test_invalid_usage_exits_2_without_a_request(
    api: FakeApi, run: Run, command: list[str], message: str
) -> None:
    refused = run(*command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in " ".join(refused.stderr.split())
    assert api.requests == []
