"""The attempts of a task: every one that was handed out is listed, and the times of the last one are kept."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shardmill.engine.tasks.interruption import hand_back
from shardmill.model.worker import HandedBack, Lease
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults, How
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import lease, register, start_tasks
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread


def returned(held: Lease, reason: str = "the worker stopped") -> HandedBack:
    return HandedBack(task_id=held.task_id, attempt=held.attempt, receipt=held.receipt, reason=reason)


def attempts(runner: JobRunner, index: int = 0) -> list[tuple[int, str | None, str | None]]:
    listed = runner.task("a", index)["attempts"]
    return [(each["attempt"], each["reason"], each["message"]) for each in listed]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_task_that_is_returned_over_http_has_the_attempt_with_its_reason(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    given = {name: task[name] for name in ("taskId", "attempt", "receipt")}
    for more in ({"reason": "no slot is free"}, {}):
        answer = runner.cloud.http(
            "POST", "/v1/work:release", {"workerId": me["id"], "tasks": [given | more]}
        )
        assert answer.status == 200
    view = runner.task("a", 0)
    assert (view["state"], view["attempt"], view["failed"]) == ("READY", 1, 0)
    [attempt] = view["attempts"]
    assert (attempt["worker"], attempt["reason"]) == (me["id"], "returned")
    assert view["checkoutTime"] == attempt["startTime"] <= attempt["endTime"]
    assert runner.worker.take()[0].attempt == 2


@pytest.mark.parametrize("form", ["direct", "http"])
def test_a_worker_says_why_it_returns_tasks(runner: JobRunner, form: str, tmp_path: Path) -> None:
    runner.define({"stepName": "a", "content": f"[ -e {tmp_path}/next ] || sleep 60", "sharding": 4})
    runner.submit()
    with worker_thread(connect(runner.cloud, form), slots=2, grace_seconds=0.0):
        runner.cloud.run_until(lambda: runner.step("a").get("counts", {}).get("RUNNING", 0) >= 2, 10)
    (tmp_path / "next").touch()
    with worker_thread(connect(runner.cloud, form), "next", slots=4):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    messages = set()
    for index in range(4):
        found = attempts(runner, index)
        assert [number for number, _, _ in found] == list(range(1, runner.task("a", index)["attempt"] + 1))
        assert [reason for _, reason, _ in found] == ["returned"] * (len(found) - 1) + [None]
        messages |= {message for _, _, message in found[:-1]}
    assert messages <= {
        "the worker stopped while the task ran",
        "the worker stopped before the task started",
        "the worker was suspended, drained or stopped when it received the task",
    }
    assert messages


@pytest.mark.parametrize("how", ["before", "after", "crash", "throttle"])
@pytest.mark.parametrize("call", [("sqs", "ChangeMessageVisibilityBatch"), ("dynamodb", "BatchWriteItem")])
def test_a_partial_hand_back_is_completed_by_its_repetition(
    runner: JobRunner, faults: Faults, call: tuple[str, str], how: How
) -> None:
    start_tasks(runner, 1)
    [held] = runner.take(1)
    faults.fail(*call, how=how, times=9)
    with suppress(Exception, ProcessKilled):
        hand_back(runner.mill, runner.worker.row.id, [returned(held)], runner.worker.clock())
    faults.clear_faults()
    assert [number for number, _, _ in attempts(runner)] == [1]
    hand_back(runner.mill, runner.worker.row.id, [returned(held)], runner.worker.clock())
    assert attempts(runner) == [(1, "returned", "the worker stopped")]
    assert runner.take(1)[0].attempt == 2


def test_an_attempt_whose_end_was_not_recorded_is_listed_as_lost(runner: JobRunner, faults: Faults) -> None:
    start_tasks(runner, 1)
    [held] = runner.take(1)
    faults.fail("dynamodb", "BatchWriteItem", how="before", times=9)
    with suppress(Exception):
        hand_back(runner.mill, runner.worker.row.id, [returned(held)], runner.worker.clock())
    faults.clear_faults()
    runner.run()
    assert attempts(runner) == [(1, "lost", "its end was not recorded"), (2, None, None)]


def test_attempts_of_earlier_runs_stay_listed(runner: JobRunner) -> None:
    start_tasks(runner, 2)
    runner.run()
    runner.post("/v1/jobs/orders/t1:recompute", {"stepName": "a"})
    runner.run()
    for index in range(2):
        assert attempts(runner, index) == [(1, None, None), (2, None, None)]
        first, second = runner.task("a", index)["attempts"]
        assert first["endTime"] <= second["startTime"]


@pytest.mark.parametrize("outcome", ["failed", "rejected"])
def test_a_task_that_waits_for_its_retry_keeps_the_times_of_its_last_attempt(
    runner: JobRunner, outcome: str
) -> None:
    retries: dict[str, Any] = {"failedRetries": 1, "failedInterval": 600, "rejectInterval": 600}
    start_tasks(runner, 2, **retries)
    before = runner.task("a", 0)
    assert (before["checkoutTime"], before["updateTime"]) == (None, before["createTime"])
    assert before["createTime"] == runner.step("a")["queuedTime"]
    runner.worker.report(runner.take(2), outcome)
    for view in (runner.task("a", 0), runner.step_tasks("a")[0]):
        assert (view["state"], view["completedTime"]) == ("READY", None)
        assert at(view["createTime"]) <= at(view["checkoutTime"]) <= at(view["updateTime"])
        assert view["executeTime"] == view["checkoutTime"]
        span = at(view["updateTime"]) - at(view["checkoutTime"])
        assert view["computeTime"] == pytest.approx(span.total_seconds())
    [attempt] = runner.task("a", 0)["attempts"]
    assert attempt["startTime"] == runner.task("a", 0)["checkoutTime"]
    runner.post("/v1/jobs/orders/t1:kill")
    assert runner.task("a", 0)["state"] == "KILLED"
    assert runner.task("a", 0)["checkoutTime"] == attempt["startTime"]


def test_a_forced_task_has_the_time_of_the_force(runner: JobRunner) -> None:
    start_tasks(runner, 1, failedRetries=1, failedInterval=600)
    runner.worker.report(runner.take(1), "failed")
    waiting = runner.task("a", 0)
    runner.post("/v1/jobs/orders/t1:force", {"state": "SUCCESS", "stepName": "a", "index": 0})
    forced = runner.task("a", 0)
    assert (forced["state"], forced["attempt"]) == ("SUCCESS", 2)
    assert at(forced["completedTime"]) >= at(waiting["updateTime"])
    assert len(forced["attempts"]) == 2


def test_a_step_is_queued_when_its_tasks_are(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(1)
    assert runner.step("b")["queuedTime"] is None
    runner.worker.report(held)
    runner.take(1)
    first, second = runner.step("a"), runner.step("b")
    assert at(first["createTime"]) <= at(first["queuedTime"]) <= at(first["startedTime"])
    assert at(first["completedTime"]) <= at(second["queuedTime"]) <= at(second["startedTime"])
