"""Reports of results: forged, repeated, contradictory and late ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.blocks import Shard
from shardmill.model.states import TaskState
from shardmill.model.worker import HandedBack, output_size
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import lease, register, report, start_tasks


@pytest.mark.parametrize(
    "entry", ["", "Z1", "Rx", "R1|1", "R1||w.1|-1", "R1||w.1|zz|-5", 7, None, ["R1"], "R-1||w.1|1"]
)
def test_invalid_receipts_change_nothing(runner: JobRunner, entry: Any) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    [held] = runner.take(1)
    receipt = json.dumps([1, "q", "h", entry])
    result = {"taskId": held.task_id, "attempt": 9, "outcome": "success", "receipt": receipt}
    for path, body in (
        ("/v1/work:report", {"workerId": runner.worker.row.id, "results": [result]}),
        (
            "/v1/work:release",
            {
                "workerId": runner.worker.row.id,
                "tasks": [{k: result[k] for k in ("taskId", "attempt", "receipt")}],
            },
        ),
    ):
        response = runner.cloud.http("POST", path, body)
        assert response.status in (200, 409), response.json
    assert runner.task("a", 0)["state"] == "RUNNING"


def test_the_same_result_twice_in_one_report_counts_once(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    reported = runner.worker.report([*held, *held], "failed-permanent", stderr="boom")
    assert {item.status for item in reported} <= {"ok", "already"}
    assert runner.task("a", 0)["failed"] == 1


def test_a_task_returned_to_a_stopping_step_is_killed(runner: JobRunner) -> None:
    runner.define({"stepName": "f", "sharding": 3, "failFast": True})
    runner.submit()
    held = runner.take(3)
    runner.cloud.run_until(lambda: runner.row(0).token)
    runner.worker.report(held[:1], "failed-permanent")
    runner.cloud.run_until(lambda: runner.row(0).swept)
    given = [HandedBack(task_id=h.task_id, attempt=h.attempt, receipt=h.receipt) for h in held[1:]]
    hand_back(runner.mill, runner.worker.row.id, given, runner.worker.clock())
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "KILLED": 2}


def test_the_size_of_an_output_is_measured_as_stored(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    numbers = [1] * 30_000
    assert output_size(numbers) == 60_001 < len(json.dumps(numbers))
    assert report(runner, me, lease(runner, me), output=numbers).status == 200
    assert runner.task("a", 0)["output"] == numbers


def test_a_forged_receipt_of_another_worker_is_rejected(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me, other = register(runner), register(runner, "other")
    [task] = lease(runner, me)
    assert report(runner, me, [task], output={"good": 1}).status == 200
    before = runner.task("a", 0)
    for attempt in (1, 7):
        forged = Shard(TaskState.RUNNING, attempt=attempt, worker=f"{other['id']}.1", time=1)
        receipt = Receipt(1, "https://nowhere", "x", forged).encode()
        response = report(
            runner, other, [{**task, "attempt": attempt}], receipt=receipt, output={"bad": 1}, stderr="forged"
        )
        assert response.status == 409
    assert runner.task("a", 0) == before


def test_a_result_repeated_in_one_report_is_accepted(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    response = report(runner, me, [task, task], output=[1])
    assert (response.status, response.json["items"][0]["status"]) == (200, "ok")


def test_a_result_that_contradicts_an_earlier_one_changes_nothing(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    assert report(runner, me, [task], stdout="done").status == 200
    before = runner.task("a", 0)
    assert report(runner, me, [task], outcome="failed", stderr="no, not done").status == 409
    assert runner.task("a", 0) == before


def test_a_late_success_after_a_timeout_adds_only_its_logs(runner: JobRunner) -> None:
    start_tasks(runner, 1, timeoutSeconds=5, failedRetries=0)
    [held] = runner.take(1)
    clock = runner.worker.clock
    runner.worker.clock = lambda: clock() + 21_000
    assert runner.worker.beat([held]) == [held.task_id]
    [late] = runner.worker.report([held], stdout="at last")
    assert late.status == "stale-attempt"
    [attempt] = runner.task("a", 0)["attempts"]
    assert (attempt["reason"], attempt["outcome"], attempt["stdout"]) == ("timed-out", None, "at last")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert "longer than timeoutSeconds, 5" in runner.job()["notes"]
