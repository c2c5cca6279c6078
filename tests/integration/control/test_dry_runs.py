"""Dry runs of control actions: the same answer as the action itself, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards

STEPS: tuple[dict[str, Any], ...] = (
    {"stepName": "a", "sharding": 20},
    {"stepName": "b", "sharding": 4, "dependentStep": "a"},
)
READS = {"GetItem", "BatchGetItem", "Query"}
JOB = "/v1/jobs/orders/t1"
Prepare = Callable[[JobRunner], None]


def running(runner: JobRunner) -> None:
    """20 tasks: 4 have succeeded, 6 run, 10 wait; step b has not begun."""
    runner.define(*STEPS)
    runner.submit()
    runner.cloud.run_until(lambda: runner.row(0).token)  # else its execution writes beside the dry run
    runner.worker.report(runner.take(10)[:4])


def failed(runner: JobRunner) -> None:
    """Task 3 of step a has failed, so that step b was skipped."""
    runner.define(*STEPS)
    runner.submit()
    runner.run(fail_shards(3))


def succeeded(runner: JobRunner) -> None:
    runner.define(*STEPS)
    runner.submit()
    runner.run()


def suspended(runner: JobRunner) -> None:
    running(runner)
    runner.post(f"{JOB}:suspend")


def suspended_by_failure(runner: JobRunner) -> None:
    runner.define(*STEPS, onFailure="suspend")
    runner.submit()
    runner.run(fail_shards(3))


def waiting(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, name="parent")
    runner.define(*STEPS, dependencies=[{"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}}])
    runner.submit(dataTime="2026-01-05T00:00:00Z")


def planned(runner: JobRunner) -> None:
    """Wait until no execution plans a job."""
    runner.cloud.run_until(lambda: not runner.cloud.executions("job", status="RUNNING"))


def written(faults: Faults) -> list[str]:
    """The calls that were not reads."""
    return [name for name in faults.meter.calls if name.rpartition(".")[2] not in READS]


ACTIONS = [
    (running, "suspend", {}, {"tasksStopped": 6}, "6 running tasks will be stopped"),
    (running, "suspend", {"letFinish": True}, {"tasksStopped": 0}, "6 running tasks will finish"),
    (suspended, "suspend", {}, {"changes": False}, "is suspended already"),
    (suspended, "resume", {}, {"tasksToRun": 14}, "continues as RUNNING"),
    (running, "resume", {}, {"changes": False}, "is not suspended: it is RUNNING"),
    (
        suspended_by_failure,
        "resume",
        {},
        {"run": 2, "tasksToRun": 5, "tasksKept": 19, "steps": ["a", "b"]},
        "5 tasks will run, in 2 steps: a, b.",
    ),
    (waiting, "start", {}, {}, "starts now, without the jobs that it waits for"),
    (running, "start", {}, {"changes": False}, "does not wait for other jobs"),
    (
        running,
        "kill",
        {},
        {"tasksStopped": 6, "tasksCancelled": 14},
        "14 tasks that have not started will not run",
    ),
    (
        running,
        "kill",
        {"stepName": "a"},
        {"tasksStopped": 6, "tasksCancelled": 10},
        "Step a of orders/t1 ends as",
    ),
    (
        running,
        "kill",
        {"stepName": "a", "index": 19},
        {"tasksCancelled": 1},
        "Task 19 of step a ends as KILLED",
    ),
    (failed, "rerun", {}, {"run": 2, "tasksToRun": 5, "tasksKept": 19}, "19 tasks that succeeded will keep"),
    (failed, "rerun", {"scope": "all"}, {"tasksToRun": 24, "tasksKept": 0}, "24 tasks will run, in 2 steps"),
    (
        succeeded,
        "rerun",
        {"steps": ["a"], "shards": [1, 2]},
        {"tasksToRun": 2, "tasksKept": 22, "steps": ["a"]},
        "2 tasks will run, in 1 step: a.",
    ),
    (failed, "rerun", {"params": {"note": "x"}}, {"run": 2}, "note gets a new value"),
    (suspended, "rerun", {"scope": "all"}, {"tasksStopped": 6, "tasksToRun": 24}, "The suspended run ends"),
    (
        succeeded,
        "recompute",
        {"stepName": "b"},
        {"tasksToRun": 4, "tasksKept": 20},
        "4 tasks will run, in 1 step: b",
    ),
    (running, "force", {"state": "SUCCESS"}, {"tasksStopped": 6}, "Jobs that wait for its success continue"),
    (failed, "force", {"state": "SUCCESS"}, {"tasksStopped": 0}, "ends as SUCCESS instead of FAILED"),
    (
        running,
        "force",
        {"state": "FAILED", "stepName": "a"},
        {"tasksCancelled": 10},
        "Steps that depend on it are skipped",
    ),
    (
        running,
        "force",
        {"state": "SUCCESS", "stepName": "a", "index": 19},
        {"tasksCancelled": 1},
        "Task 19 of step a ends as SUCCESS",
    ),
    (running, "priority", {"priority": 7}, {}, "Changes priority to 7, for all steps of orders/t1"),
    (
        running,
        "group",
        {"workerGroups": ["lambda"]},
        {},
        "14 tasks that have not started will get the new values, and move",
    ),
    (running, "change", {"failedRetries": 5, "stepName": "b"}, {}, "for step b of orders/t1"),
]


@pytest.mark.parametrize(("prepare", "action", "body", "expected", "sentence"), ACTIONS)
def test_a_dry_run_says_what_the_action_does_and_writes_nothing(
    runner: JobRunner,
    faults: Faults,
    prepare: Prepare,
    action: str,
    body: dict[str, Any],
    expected: dict[str, Any],
    sentence: str,
) -> None:
    prepare(runner)
    planned(runner)
    before = runner.job()
    faults.meter.reset()
    effect = runner.post(f"{JOB}:{action}?dryRun=true", body)
    assert written(faults) == []
    assert runner.job() == before
    assert {name: effect[name] for name in expected} == expected
    assert sentence in " ".join(effect["sentences"])
    assert effect["state"] == before["state"]
    after = runner.post(f"{JOB}:{action}", body)
    assert after["run"] == effect["run"]
    assert effect["becomes"] == (
        None if "stepName" in body and action in ("kill", "force") else after["state"]
    )


REFUSALS = [
    (failed, "suspend", {}),
    (succeeded, "resume", {}),
    (succeeded, "start", {}),
    (suspended, "start", {}),
    (failed, "kill", {}),
    (failed, "kill", {"stepName": "a"}),
    (running, "kill", {"stepName": "nope"}),
    (running, "kill", {"stepName": "a", "index": 99}),
    (running, "kill", {"stepName": "a", "index": 0}),
    (running, "kill", {"stepName": "b", "index": 0}),
    (running, "rerun", {}),
    (succeeded, "rerun", {}),
    (succeeded, "recompute", {"stepName": "nope"}),
    (failed, "force", {"state": "SUCCESS", "stepName": "a"}),
    (failed, "force", {"state": "SUCCESS", "stepName": "a", "index": 3}),
    (running, "force", {"state": "FAILED", "stepName": "a", "index": 0}),
    (failed, "priority", {"priority": 7}),
    (running, "group", {"workerGroups": ["nope"]}),
    (running, "change", {"failedRetries": 5, "stepName": "nope"}),
]


@pytest.mark.parametrize(("prepare", "action", "body"), REFUSALS)
def test_a_dry_run_refuses_what_the_action_refuses(
    runner: JobRunner, faults: Faults, prepare: Prepare, action: str, body: dict[str, Any]
) -> None:
    prepare(runner)
    planned(runner)
    faults.meter.reset()
    tried = runner.cloud.http("POST", f"{JOB}:{action}?dryRun=true", body)
    assert written(faults) == []
    refused = runner.cloud.http("POST", f"{JOB}:{action}", body)
    assert 400 <= refused.status < 500
    assert (tried.status, tried.json) == (refused.status, refused.json)


def test_a_job_that_is_not_planned_yet_is_not_planned_by_a_dry_run(runner: JobRunner, faults: Faults) -> None:
    runner.define(*STEPS)
    faults.fail("stepfunctions", "StartExecution", how="before")
    runner.submit()
    faults.meter.reset()
    effect = runner.post(f"{JOB}:kill?dryRun=true", {"stepName": "a"})
    assert written(faults) == []
    assert effect["sentences"][0] == "Step a of orders/t1 ends as KILLED."


@pytest.mark.parametrize(
    ("prepare", "query", "sentences"),
    [
        (failed, "", ["orders/t1 is deleted.", "Its name and trigger can be used again."]),
        (
            running,
            "&full=true",
            [
                "orders/t1 is killed and deleted.",
                "6 running tasks will be stopped.",
                "14 tasks that have not started will not run.",
                "Its rows, files and logs are removed, and cannot be restored.",
                "Its name and trigger can be used again.",
            ],
        ),
    ],
)
def test_a_dry_run_of_a_deletion_says_what_it_does_and_writes_nothing(
    runner: JobRunner, faults: Faults, prepare: Prepare, query: str, sentences: list[str]
) -> None:
    prepare(runner)
    planned(runner)
    faults.meter.reset()
    answer = runner.cloud.http("DELETE", f"{JOB}?dryRun=true{query}")
    assert written(faults) == []
    assert (answer.status, answer.json["becomes"], answer.json["sentences"]) == (200, "DELETED", sentences)
    assert runner.cloud.http("DELETE", f"{JOB}?{query}").status == 204


def test_a_dry_run_of_a_rerun_names_the_dependents(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    runner.define(
        {"stepName": "a"},
        name="child",
        dependencies=[{"jobName": "orders", "window": {"unit": "day", "from": 0, "to": 0}}],
    )
    runner.submit(dataTime="2026-01-05T00:00:00Z")
    runner.run()
    runner.submit("c1", "child", dataTime="2026-01-05T00:00:00Z")
    runner.run(trigger="c1", name="child")
    faults.meter.reset()
    effect = runner.post(f"{JOB}:rerun?dryRun=true", {"dependents": True})
    assert written(faults) == []
    assert (effect["dependents"], effect["tasksToRun"]) == (["child/c1"], 1)


def test_many_jobs_are_tried_in_one_request(runner: JobRunner, faults: Faults) -> None:
    running(runner)
    runner.submit("t2")
    runner.cloud.http("POST", "/v1/jobs/orders/t2:kill")
    jobs = [{"jobName": "orders", "trigger": name} for name in ("t1", "t2", "t3")]
    runner.cloud.run_until(lambda: len(runner.cloud.executions("step", status="RUNNING")) == 1)
    planned(runner)
    faults.meter.reset()
    items = runner.post(
        "/v1/jobs:dry-run", {"action": "suspend", "jobs": jobs, "request": {"letFinish": True}}
    )["items"]
    assert written(faults) == []
    assert [(item["trigger"], item["status"]) for item in items] == [("t1", 200), ("t2", 409), ("t3", 404)]
    assert items[0]["effect"]["becomes"] == "SUSPENDED"
    assert (items[1]["problem"]["code"], items[2]["problem"]["code"]) == ("job-ended", "job-not-found")
    [deleted] = runner.post(
        "/v1/jobs:dry-run", {"action": "delete", "jobs": jobs[:1], "request": {"full": True}}
    )["items"]
    assert "cannot be restored" in " ".join(deleted["effect"]["sentences"])


def test_a_dry_run_of_many_checks_the_request_and_the_token(runner: JobRunner) -> None:
    running(runner)
    jobs = [{"jobName": "orders", "trigger": "t1"}]
    wrong = runner.cloud.http(
        "POST", "/v1/jobs:dry-run", {"action": "priority", "jobs": jobs, "request": {"priority": "x"}}
    )
    assert (wrong.status, wrong.json["faults"][0]["pointer"]) == (422, "/request/priority")
    made = runner.post(
        "/v1/tokens",
        {"name": "other", "scopes": ["read", {"scope": "operate", "definitions": ["other"]}]},
        status=201,
    )
    limited = runner.cloud.http(
        "POST", "/v1/jobs:dry-run", {"action": "kill", "jobs": jobs}, token=made["token"]
    )
    assert (limited.status, limited.json["items"][0]["status"]) == (200, 403)
