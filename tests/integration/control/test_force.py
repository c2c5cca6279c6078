"""Force tasks, steps and Jobs to an end state."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.running import finish, kill
from support.scenarios.job_runner import JobRunner, fail_shards


def force(
    runner: JobRunner, state: str, status: int = 200, trigger: str = "t1", name: str = "orders", **fields: Any
) -> Any:
    response = runner.cloud.http("POST", f"/v1/jobs/{name}/{trigger}:force", {"state": state, **fields})
    assert response.status == status, response
    return response.json


def test_a_failed_job_forced_to_success_starts_its_children(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, name="parent")
    runner.define({"stepName": "a"}, name="child", dependencies=["parent"])
    runner.submit("t1", "parent", dataTime="2026-01-05T00:00:00Z")
    runner.run(fail_shards(0), name="parent")
    runner.cloud.deliver_job_ends()
    assert runner.cloud.http("GET", "/v1/jobs?jobName=child").json["items"] == []
    result = force(runner, "SUCCESS", name="parent", reason="checked by hand")
    assert (result["state"], result["notes"]) == ("SUCCESS", "forced to SUCCESS by admin: checked by hand")
    runner.cloud.deliver_job_ends()
    assert runner.run(trigger="20260105T000000Z", name="child")["state"] == "SUCCESS"


def test_a_job_that_is_forced_while_its_failure_is_announced_announces_its_success(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that forces it crashes before it publishes; the one that failed it is slow."""
    runner.define({"stepName": "a"})
    runner.submit()
    runner.run(fail_shards(0))
    failed = runner.mill.jobs.find("orders", "t1")
    assert failed is not None
    with monkeypatch.context() as patch:
        patch.setattr(kill, "announce", lambda *_: None)
        force(runner, "SUCCESS")
    finish.announce(runner.mill, failed, failed.update_time)
    forced = runner.mill.jobs.get(failed.id)
    assert forced is not None
    assert (forced.state, forced.event_pending) == ("SUCCESS", True)
    runner.tick(minutes=2)
    forced = runner.mill.jobs.get(failed.id)
    assert forced is not None
    assert not forced.event_pending


def test_a_job_that_is_forced_while_its_dependents_are_notified_notifies_all_of_them(
    runner: JobRunner,
) -> None:
    runner.define({"stepName": "a"}, name="parent")
    runner.define({"stepName": "a"}, name="child", dependencies=["parent"])
    runner.submit("c1", "child", dataTime="2026-01-05T00:00:00Z")
    runner.submit("t1", "parent", dataTime="2026-01-05T00:00:00Z")
    runner.run(fail_shards(0), name="parent")
    failed = runner.mill.jobs.find("parent", "t1")
    assert failed is not None
    [(position, _)] = runner.mill.runs.waiting_for("parent", failed.moment)
    runner.mill.jobs.note_notified(failed, {"to": f"waiting:{position}"})  # then the slice crashed
    force(runner, "SUCCESS", name="parent")
    runner.cloud.deliver_job_ends()
    assert runner.run(trigger="c1", name="child")["state"] == "SUCCESS"


def test_force_ends_a_running_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(2)
    runner.worker.report(held[:1])
    assert force(runner, "FAILED")["state"] == "FAILED"
    assert runner.states() == {"a": "KILLED", "b": "KILLED"}
    assert runner.worker.beat(held[1:]) == [held[1].task_id]
    assert runner.cloud.executions(status="RUNNING") == []
    assert force(runner, "FAILED")["state"] == "FAILED"
    assert force(runner, "SUCCESS")["state"] == "SUCCESS"


def test_a_step_forced_to_success_releases_its_dependents(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(1)
    force(runner, "SUCCESS", stepName="a", reason="done elsewhere")
    assert [each.status for each in runner.worker.report(held)] == ["stale-attempt"]
    job = runner.run()
    assert (job["state"], runner.states()) == ("SUCCESS", {"a": "SUCCESS", "b": "SUCCESS"})
    assert job["steps"][0]["counts"] == {"KILLED": 3}
    items = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    [forced] = [each for each in items if each["stepName"] == "a" and each["state"] == "SUCCESS"]
    assert (forced["actor"], forced["reason"]) == ("admin", "forced to SUCCESS by admin: done elsewhere")


def test_a_step_forced_to_fail_skips_its_dependents(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    force(runner, "FAILED", stepName="a")
    assert (runner.run()["state"], runner.states()["b"]) == ("FAILED", "SKIPPED")


def test_tasks_are_forced_one_by_one(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3, "failedRetries": 3, "failedInterval": 3600})
    runner.submit()
    held = runner.take(2)
    force(runner, "SUCCESS", stepName="a", index=held[0].sharding.index)
    assert [each.status for each in runner.worker.report(held[:1], "failed")] == ["stale-attempt"]
    runner.worker.report(held[1:], "failed")
    force(runner, "SUCCESS", stepName="a", index=held[1].sharding.index, reason="known")
    task = runner.task("a", held[1].sharding.index)
    assert (task["state"], task["attempts"][-1]["reason"]) == ("SUCCESS", "forced")
    unleased = ({0, 1, 2} - {lease.sharding.index for lease in held}).pop()
    force(runner, "SUCCESS", stepName="a", index=unleased)
    assert runner.run()["state"] == "SUCCESS"
    assert runner.job()["steps"][0]["counts"] == {"SUCCESS": 3}
    assert force(runner, "FAILED", 409, stepName="a", index=unleased)["code"] == "step-ended"


def test_invalid_requests_are_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    assert force(runner, "KILLED", 422)["faults"][0]["pointer"] == "/state"
    assert force(runner, "SUCCESS", 422, index=1)["faults"][0]["code"] == "missing-field"
    assert force(runner, "SUCCESS", 404, stepName="x")["code"] == "step-not-found"
    runner.run()
    assert force(runner, "SUCCESS", 409, stepName="a")["code"] == "job-ended"
