"""Changes of a running Job: leased tasks keep their settings, later leases use the new ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from shardmill.engine.continuation import Budget
from shardmill.engine.control import change as change_module
from shardmill.engine.running import changes
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults, How
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.manual_worker import ManualWorker

ME = Actor("me")


def change(runner: JobRunner, status: int = 200, *, action: str = "change", **fields: Any) -> Any:
    response = runner.cloud.http("POST", f"/v1/jobs/orders/t1:{action}", fields)
    assert response.status == status, response
    return response.json


@pytest.fixture
def other(runner: JobRunner) -> ManualWorker:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    return ManualWorker(runner.mill, "other", ["other"])


def test_waiting_tasks_move_to_another_group(runner: JobRunner, other: ManualWorker) -> None:
    runner.define({"stepName": "a", "sharding": 5}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(2)
    change(runner, action="group", workerGroups=["other"], reason="more memory")
    runner.later(3)
    assert runner.worker.take() == []
    runner.worker.report(held)
    other.clock = runner.worker.clock
    runner.worker = other
    job = runner.run()
    assert (job["state"], job["workerGroups"]) == ("SUCCESS", ["other"])
    by_worker = [task["worker"] == other.row.id for task in runner.step_tasks("a")]
    assert sorted(by_worker) == [False, False, True, True, True]
    history = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    assert "changed workerGroups to other: more memory" in [each["reason"] for each in history]


def test_a_change_of_one_step_does_not_affect_the_others(runner: JobRunner, other: ManualWorker) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    change(runner, stepName="b", workerGroups=["other"], failedRetries=4, timeoutSeconds=60, priority=11)
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY", "b": "WAITING"}, 10)
    a, b = runner.row(0), runner.row(1)
    assert (a.groups, a.priority, a.spec["failedRetries"]) == (["default"], 1, 0)
    assert (b.groups, b.priority, b.spec["failedRetries"], b.spec["timeoutSeconds"]) == (["other"], 11, 4, 60)
    assert runner.job()["priority"] == 1


def test_a_window_grows_and_shrinks(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 40, "maxTaskCount": 2})
    runner.submit()
    held = runner.take(2)
    assert runner.worker.take() == []
    change(runner, maxTaskCount=10)
    runner.later(3)
    held += runner.take(8)
    assert runner.worker.take() == []
    change(runner, maxTaskCount=3)
    runner.later(6)
    runner.worker.report(held)
    leased = runner.take(3)
    assert runner.worker.take() == []
    runner.worker.report(leased)
    assert runner.run()["state"] == "SUCCESS"


def test_added_retries_apply_to_tasks_that_fail_later(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 2, "failedInterval": 0})
    runner.submit()
    held = runner.take(2)
    change(runner, failedRetries=1)
    runner.later(3)
    runner.worker.report(held, "failed")
    runner.later(5)
    assert runner.run()["state"] == "SUCCESS"
    assert [task["attempt"] for task in runner.step_tasks("a")] == [2, 2]


def test_a_shorter_time_limit_applies_to_later_leases(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 2, "maxTaskCount": 1, "timeoutSeconds": 600})
    runner.submit()
    [held] = runner.take(1)
    assert held.timeout_seconds == 600
    change(runner, timeoutSeconds=5)
    runner.later(60)  # longer than the new limit; the running attempt keeps the old one
    assert runner.worker.beat([held]) == []
    runner.worker.report([held])
    [second] = runner.take(1)
    assert second.timeout_seconds == 5
    runner.worker.report([second])
    assert runner.run()["state"] == "SUCCESS"


def test_a_change_applies_to_a_waiting_job_and_its_next_run(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 2}, concurrency=1)
    runner.submit("t0")
    runner.cloud.run_until(lambda: runner.job("t0")["state"] == "QUEUED", 10)
    runner.submit("t1")
    change(runner, failedRetries=3, priority=5)
    runner.run(trigger="t0")
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED", 10)
    assert (runner.row(0).spec["failedRetries"], runner.row(0).priority) == (3, 5)
    assert runner.run(fail_shards(1))["state"] == "FAILED"
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    assert runner.row(0).spec["failedRetries"] == 3
    assert runner.run()["state"] == "SUCCESS"


def test_a_later_change_of_all_steps_overrides_one_of_a_step(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    change(runner, stepName="b", failedRetries=1)
    change(runner, failedRetries=2)
    change(runner, stepName="a", failedRetries=3)
    assert [runner.row(index).spec["failedRetries"] for index in (0, 1)] == [3, 2]


def test_invalid_changes_are_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    assert change(runner, 422)["code"] == "invalid-request"
    assert change(runner, 422, failedRetries=-1)["faults"][0]["pointer"] == "/failedRetries"
    missing = change(runner, 422, workerGroups=["default", "nope"])
    assert missing["faults"][0]["pointer"] == "/workerGroups/1"
    assert change(runner, 404, stepName="nope", priority=1)["code"] == "step-not-found"
    runner.run()
    assert change(runner, 409, priority=3)["code"] == "job-ended"


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("call", range(4))
def test_the_tick_completes_an_interrupted_change(
    runner: JobRunner, faults: Faults, call: int, how: How
) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY", "b": "WAITING"}, 10)
    job = runner.mill.jobs.find("orders", "t1")
    assert job
    faults.fail("dynamodb", "UpdateItem", how=how, nth=call + 1)
    with suppress(ClientError, EndpointConnectionError, ReadTimeoutError):
        change_module.change(runner.mill, job, {"failed_retries": 2}, ME, runner.worker.clock())
    faults.clear_faults()
    runner.tick(2)
    changed = runner.mill.jobs.find("orders", "t1")
    assert changed
    assert not changed.unapplied
    assert (
        runner.row(0).spec["failedRetries"]
        == runner.row(1).spec["failedRetries"]
        == (2 if changed.changes else 0)
    )
    runner.later(120)
    assert runner.run()["state"] == "SUCCESS"


def test_a_larger_window_is_exact_after_tasks_ended_out_of_order(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 40, "maxTaskCount": 2})
    runner.submit()
    first, long = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    runner.worker.report([first])
    for _ in range(10):
        runner.worker.report(runner.take(1))
    runner.post("/v1/jobs/orders/t1:change", {"maxTaskCount": 3})
    runner.later(6)
    held = [lease for _ in range(10) for lease in runner.worker.take()]
    assert len(held) == 2
    runner.worker.report([long, *held])
    assert runner.run()["state"] == "SUCCESS"


def test_tasks_running_beyond_a_smaller_window_are_not_replaced(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 20, "maxTaskCount": 6})
    runner.submit()
    held = sorted(runner.take(6), key=lambda lease: lease.sharding.index)
    runner.post("/v1/jobs/orders/t1:change", {"maxTaskCount": 2})
    runner.later(6)
    runner.worker.report(held[2:])
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []
    runner.worker.report(held[:2])
    assert len(runner.take(2)) == 2
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []


def test_the_later_of_two_concurrent_changes_applies(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    job = runner.mill.jobs.find("orders", "t1")
    assert job
    overrides = {"": {"failed_retries": 1}}
    common: dict[str, Any] = {"priority": 1, "groups": job.groups, "now": 1, "actor": "me", "reason": ""}
    slow = runner.mill.jobs.change(job, changes=overrides, due=2, **common)
    assert slow
    runner.post("/v1/jobs/orders/t1:change", {"failedRetries": 2})
    changes.apply_changes(runner.mill, slow, runner.worker.clock(), Budget())
    assert runner.row(0).spec["failedRetries"] == 2


def test_a_retry_after_a_change_does_not_wait_for_the_lease(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "failedRetries": 1, "failedInterval": 0})
    runner.submit()
    held = runner.take(1)
    runner.post("/v1/jobs/orders/t1:change", {"priority": 20})
    runner.later(3)
    assert runner.worker.take() == []  # its new message stays hidden until the lease ends
    runner.worker.report(held, "failed")
    [retried] = runner.take(1)
    assert retried.attempt == 2


def _giants(runner: JobRunner, name: str) -> int:
    return len(runner.mill.groups.giants(name, most=10))


def test_a_giant_step_is_registered_in_the_group_it_moves_to(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    runner.define({"stepName": "a", "sharding": 200, "maxTaskCount": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    assert _giants(runner, "default") == 0
    runner.post("/v1/jobs/orders/t1:change", {"maxTaskCount": 150})
    assert _giants(runner, "default") == 1
    runner.post("/v1/jobs/orders/t1:suspend")
    runner.post("/v1/jobs/orders/t1:group", {"workerGroups": ["other"]})
    assert (_giants(runner, "default"), _giants(runner, "other")) == (0, 1)
    runner.post("/v1/jobs/orders/t1:kill")
    assert _giants(runner, "other") == 0


def test_a_change_of_a_step_without_a_name_is_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    rejected = runner.post("/v1/jobs/orders/t1:change", {"stepName": "", "priority": 3}, status=422)
    assert rejected["faults"][0]["pointer"] == "/stepName"
