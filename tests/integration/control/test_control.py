"""Suspend, resume and kill, also concurrently with workers and with each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.control import suspend
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.running import kill
from shardmill.engine.tasks.lease import lease
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker

ME = Actor("me")


def act(
    runner: JobRunner, action: str, body: Any = None, trigger: str = "t1", status: int = 200
) -> dict[str, Any]:
    response = runner.cloud.http("POST", f"/v1/jobs/orders/{trigger}:{action}", body)
    assert response.status == status, response
    result: dict[str, Any] = response.json
    return result


def counts(runner: JobRunner, step: int = 0) -> dict[str, int]:
    found: dict[str, int] = runner.job()["steps"][step]["counts"]
    return found


def leasable_tasks(runner: JobRunner) -> list[str]:
    """Lease what is still queued, after cached steps have expired."""
    runner.later(3)
    return [held.task_id for held in runner.worker.take()]


def test_a_resumed_job_continues_where_it_was_suspended(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(10)
    runner.worker.report(held[:4])
    result = act(runner, "suspend", {"reason": "wrong data"})
    assert (result["state"], result["notes"]) == ("SUSPENDED", "suspended by admin: wrong data")
    assert runner.states() == {"a": "SUSPENDED", "b": "WAITING"}
    assert counts(runner) == {"SUCCESS": 4, "RUNNING": 6, "SUSPENDED": 10}
    assert sorted(runner.worker.beat(held[4:])) == sorted(lease.task_id for lease in held[4:])
    runner.worker.report(held[4:], "failed", reason="discarded")
    assert counts(runner) == {"SUCCESS": 4, "SUSPENDED": 16}
    assert leasable_tasks(runner) == []
    assert act(runner, "resume")["state"] == "RUNNING"
    job = runner.run()
    assert (job["state"], counts(runner), counts(runner, 1)) == ("SUCCESS", {"SUCCESS": 20}, {"SUCCESS": 1})
    assert all(task["failed"] == 0 for task in runner.step_tasks("a"))


def test_a_suspension_with_let_finish_accepts_results_of_running_tasks(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(2)
    act(runner, "suspend", {"letFinish": True})
    assert runner.worker.beat(held) == []
    assert [each.status for each in runner.worker.report(held)] == ["ok", "ok"]
    assert counts(runner) == {"SUCCESS": 2, "SUSPENDED": 1}
    act(runner, "resume")
    assert runner.run()["state"] == "SUCCESS"


def test_a_step_closes_while_suspended_and_its_dependent_starts_after_resume(
    runner: JobRunner,
) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(1)
    act(runner, "suspend", {"letFinish": True})
    runner.worker.report(held)
    runner.cloud.run_until(lambda: runner.states()["a"] == "SUCCESS")
    assert runner.states()["b"] == "WAITING"
    runner.tick(minutes=5)
    assert (runner.job()["state"], runner.states()["b"]) == ("SUSPENDED", "WAITING")
    act(runner, "resume")
    assert runner.run()["state"] == "SUCCESS"


def test_a_suspended_job_whose_steps_have_ended_ends_when_resumed(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    act(runner, "suspend", {"letFinish": True})
    runner.worker.report(held)
    runner.cloud.run_until(lambda: runner.states()["a"] == "SUCCESS")
    assert runner.job()["state"] == "SUSPENDED"
    act(runner, "resume")
    assert runner.job()["state"] == "SUCCESS"


def test_a_worker_with_a_cached_row_does_not_end_the_suspension_of_a_step(runner: JobRunner) -> None:
    """Another process cached the step as READY before the suspension, and leases a task after it."""
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    late = ManualWorker(Mill.connect(runner.mill.settings), "late")
    messages = late.receive(1)
    late.mill.recent_steps.get([runner.row(0).key], late.mill.jobs.steps_by_key, late.clock())
    act(runner, "suspend")
    [held] = lease(late.mill, WorkerSession.of(late.row), messages, late.clock())
    assert runner.states() == {"a": "SUSPENDED"}
    assert late.beat([held]) == [held.task_id]
    late.report([held], "failed", reason="discarded")
    act(runner, "resume")
    assert runner.run()["state"] == "SUCCESS"


def test_a_lease_marks_a_step_with_a_newer_generation_as_running(runner: JobRunner) -> None:
    """The new window of a step voids its messages just after one of them was received."""
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    late = ManualWorker(Mill.connect(runner.mill.settings), "late")
    messages = late.receive(1)
    late.mill.recent_steps.get([runner.row(0).key], late.mill.jobs.steps_by_key, late.clock())
    assert runner.mill.jobs.raise_generation(runner.row(0))
    held = lease(late.mill, WorkerSession.of(late.row), messages, late.clock())
    assert (runner.job()["state"], runner.states()) == ("RUNNING", {"a": "RUNNING"})
    late.report(held)
    assert runner.run()["state"] == "SUCCESS"


def test_suspend_and_resume_are_idempotent(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.take(1)
    assert [act(runner, "suspend")["state"] for _ in range(2)] == ["SUSPENDED"] * 2
    assert [act(runner, "resume")["state"] for _ in range(2)] == ["RUNNING"] * 2
    states = [each["state"] for each in runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]]
    assert states.count("SUSPENDED") == 2  # the Job's and the step's


def test_a_job_suspended_before_it_was_planned_starts_when_resumed(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    faults.fail("stepfunctions", "StartExecution", how="before")
    runner.submit()
    assert act(runner, "suspend")["state"] == "SUSPENDED"
    runner.tick(minutes=3)
    assert runner.job()["state"] == "SUSPENDED"
    act(runner, "resume")
    assert runner.run()["state"] == "SUCCESS"


def test_a_suspended_job_releases_its_slot_and_waits_for_another(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("t1")
    runner.cloud.run_until(lambda: runner.job("t1")["state"] == "QUEUED")
    runner.submit("t2")
    runner.cloud.run_until(lambda: runner.job("t2")["state"] == "WAITING")
    act(runner, "suspend", trigger="t1")
    runner.cloud.run_until(lambda: runner.job("t2")["state"] == "QUEUED")
    assert act(runner, "resume", trigger="t1")["state"] == "WAITING"
    assert runner.run(trigger="t2")["state"] == "SUCCESS"
    assert runner.run(trigger="t1")["state"] == "SUCCESS"


def test_actions_on_an_ended_job_are_rejected_with_its_state(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.run()
    for action in ("suspend", "resume", "kill"):
        result = act(runner, action, status=409)
        assert (result["code"], "SUCCESS" in result["detail"]) == ("job-ended", True)


@pytest.mark.parametrize("nth", range(1, 5))
@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_the_tick_completes_an_interrupted_suspension(runner: JobRunner, nth: int, how: Any) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: all(runner.row(at).token for at in (0, 1)))
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    with Faults() as faults, suppress(ClientError, BotoCoreError, ProcessKilled):
        faults.fail("dynamodb", "UpdateItem", nth=nth, how=how)
        suspend.suspend(runner.mill, job, ME, "", runner.worker.clock(), let_finish=False)
    if runner.job()["state"] == "SUSPENDED":
        runner.tick(minutes=3)
        assert runner.states() == {"a": "SUSPENDED", "b": "SUSPENDED"}
        present = runner.mill.jobs.find("orders", "t1")
        assert present is not None
        assert not present.event_pending
        act(runner, "resume")
    runner.worker.report(held)
    assert runner.run()["state"] == "SUCCESS"


def test_concurrent_suspend_and_resume_end_in_one_state(runner: JobRunner) -> None:
    runner.define(*({"stepName": f"s{n}", "sharding": 3} for n in range(4)))
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and all(runner.row(at).token for at in range(4)))
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    now = runner.worker.clock()

    def suspend_or_resume(number: int) -> None:
        present = runner.mill.jobs.get(job.id)
        assert present is not None
        if number % 2:
            suspend.resume(runner.mill, present, ME, "", now)
        else:
            suspend.suspend(runner.mill, present, ME, "", now, let_finish=False)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(suspend_or_resume, range(12)))
    runner.tick(minutes=3)
    present = runner.mill.jobs.get(job.id)
    assert present is not None
    suspended = present.state is JobState.SUSPENDED
    assert {row.state.value == "SUSPENDED" for row in map(runner.row, range(4))} == {suspended}
    act(runner, "resume")
    runner.tick(minutes=6)
    assert runner.run()["state"] == "SUCCESS"


def test_a_killed_job_ends_at_once_and_leaves_no_messages(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(3)
    runner.worker.report(held[:1])
    result = act(runner, "kill", {"reason": "enough"})
    assert (result["state"], result["notes"]) == ("KILLED", "killed by admin: enough")
    assert runner.states() == {"a": "KILLED", "b": "KILLED"}
    assert counts(runner) == {"SUCCESS": 1, "KILLED": 19}
    assert sorted(runner.worker.beat(held[1:])) == sorted(lease.task_id for lease in held[1:])
    assert {each.status for each in runner.worker.report(held[1:])} == {"stale-attempt"}
    assert leasable_tasks(runner) == []
    assert counts(runner) == {"SUCCESS": 1, "KILLED": 19}
    assert runner.cloud.executions(status="RUNNING") == []
    assert runner.cloud.settle() == [e["executionArn"] for e in runner.cloud.executions(status="ABORTED")]
    assert act(runner, "kill")["state"] == "KILLED"
    assert runner.job()["state"] == "KILLED"


@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("how", ["after", "crash"])
def test_the_tick_completes_an_interrupted_kill(runner: JobRunner, nth: int, how: Any) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: all(runner.row(at).token for at in (0, 1)))
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    with Faults() as faults, suppress(ClientError, BotoCoreError, ProcessKilled):
        faults.fail("dynamodb", "UpdateItem", nth=nth, how=how)
        kill.kill(runner.mill, job, "me", "", runner.worker.clock())
    runner.tick(minutes=3)
    assert (runner.job()["state"], runner.states()) == ("KILLED", {"a": "KILLED", "b": "KILLED"})
    assert [step["counts"] for step in runner.job()["steps"]] == [{"KILLED": 3}, {"KILLED": 1}]
    assert runner.worker.beat(held) == [held[0].task_id]
    assert leasable_tasks(runner) == []
    runner.cloud.run_until(lambda: not runner.cloud.executions(status="RUNNING"))


def test_a_killed_step_skips_only_its_dependents(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a", "sharding": 5}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c"}
    )
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    act(runner, "kill", {"stepName": "a"})
    job = runner.run()
    assert (job["state"], runner.states()) == ("FAILED", {"a": "KILLED", "b": "SKIPPED", "c": "SUCCESS"})
    assert counts(runner) == {"KILLED": 5}
    assert "killed by admin" in job["notes"]


def test_a_waiting_step_can_be_killed(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    act(runner, "kill", {"stepName": "b"})
    assert runner.run()["state"] == "FAILED"
    assert runner.states() == {"a": "SUCCESS", "b": "KILLED"}


@pytest.mark.parametrize(("action", "fields"), [("kill", {}), ("force", {"state": "SUCCESS"})])
def test_a_phase_does_not_end_while_one_of_its_steps_runs(
    runner: JobRunner, action: str, fields: Any
) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "phase": 1})
    runner.submit()
    [held] = runner.take(1)
    act(runner, action, {"stepName": "b", **fields})
    runner.tick(2)
    assert runner.states()["c"] == "WAITING"
    assert not runner.ended()
    runner.worker.report([held])
    runner.run()
    assert runner.states()["a"] == runner.states()["c"] == "SUCCESS"


@pytest.mark.parametrize("leased", [True, False])
def test_a_single_task_can_be_killed(runner: JobRunner, leased: bool) -> None:
    runner.define(
        {"stepName": "a", "sharding": 3, "maxTaskCount": 3 if leased else 1, "toleratedFailures": 1}
    )
    runner.submit()
    held = runner.take(1)
    index = held[0].sharding.index if leased else 2
    act(runner, "kill", {"stepName": "a", "index": index})
    assert runner.task("a", index)["state"] == "KILLED"
    assert runner.worker.beat(held) == ([held[0].task_id] if leased else [])
    assert [each.status for each in runner.worker.report(held)] == ["stale-attempt" if leased else "ok"]
    job = runner.run()
    assert (job["state"], counts(runner)) == ("FAILED", {"SUCCESS": 2, "KILLED": 1})


def test_invalid_requests_are_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    assert act(runner, "kill", {"index": 3}, status=422)["faults"][0]["code"] == "missing-field"
    assert act(runner, "kill", {"stepName": "x"}, status=404)["code"] == "step-not-found"
    assert act(runner, "kill", {"stepName": "a", "index": 9}, status=404)["code"] == "task-not-found"
    assert act(runner, "suspend", {"why": "x"}, status=422)["faults"][0]["code"] == "unknown-field"
    assert act(runner, "suspend", trigger="none", status=404)["code"] == "job-not-found"


def test_the_history_records_actor_and_reason(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    act(runner, "suspend", {"reason": "wait a moment"})
    act(runner, "resume", {"reason": "go"})
    runner.worker.report(held, "failed", reason="discarded")
    runner.run()
    items = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    job = [(each["state"], each["actor"], each["reason"]) for each in items if not each["stepName"]]
    assert job == [
        ("INIT", "admin", "submitted"),
        ("QUEUED", "shardmill", ""),
        ("RUNNING", "shardmill", ""),
        ("SUSPENDED", "admin", "wait a moment"),
        ("RUNNING", "admin", "go"),
        ("SUCCESS", "shardmill", ""),
    ]
    steps = [each["state"] for each in items if each["stepName"] == "a"]
    assert steps == ["READY", "RUNNING", "SUSPENDED", "RUNNING", "SUCCESS"]
    assert [each["time"] for each in items] == sorted(each["time"] for each in items)


def test_killing_a_waiting_task_does_not_advance_the_window(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2, "toleratedFailures": 10})
    runner.submit()
    held = runner.take(2)
    for index in (4, 5, 6):
        runner.post("/v1/jobs/orders/t1:kill", {"stepName": "a", "index": index})
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []
    runner.worker.report(held)
    runner.run()
    assert runner.step("a")["counts"] == {"SUCCESS": 7, "KILLED": 3}
