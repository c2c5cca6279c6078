"""The explain view: why a Job waits, runs or has failed."""

from __future__ import annotations

from typing import Any

from shardmill.model.worker import Lease
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.schedule_clock import ScheduleClock, at


def explain(runner: JobRunner, trigger: str = "t1", name: str = "orders") -> str:
    response = runner.cloud.http("GET", f"/v1/jobs/{name}/{trigger}:explain")
    assert response.status == 200, response
    return "\n".join(response.json["sentences"])


def name(lease: Lease) -> str:
    return f"task {lease.sharding.index} of step {lease.step_name}"


def test_explain_describes_running_and_waiting_steps(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a", "sharding": 3, "failedRetries": 2, "failedInterval": 600},
        {"stepName": "b", "dependentStep": "a"},
    )
    runner.submit()
    held = runner.take(2)
    runner.worker.report(held[:1], "failed", stderr="no\nsuch file")
    explanation = explain(runner)
    assert "Step a is RUNNING: 0 of 3 tasks have ended, running: 1, waiting: 2." in explanation
    assert f"Tasks of step a waiting for a retry: 1; the first is {name(held[0])} at" in explanation
    assert f"The task that has been running longest is {name(held[1])}, since" in explanation
    assert f"on worker {runner.worker.row.name}." in explanation
    assert "Step b waits for a." in explanation


def test_explain_names_a_due_retry_the_workers_that_skip_it_and_those_that_can_run_it(
    runner: JobRunner,
) -> None:
    step = {"stepName": "a", "content": "true", "shardConf": {"shard": 5, "startShardId": 2}}
    runner.define(step, failedRetries=1, failedInterval=0)
    runner.submit()
    runner.worker.report(runner.take(1), "failed")
    runner.mill.forget_workers(["default"])
    [index] = [task["sharding"]["index"] for task in runner.step_tasks("a") if task["attempt"]]
    explanation = explain(runner)
    assert f"Task {index} of step a has waited for attempt 2 since" in explanation
    assert "which leave it to others: manual (idle); no other live worker can run it" in explanation
    ManualWorker(runner.mill, "able")
    ManualWorker(runner.mill, "unable", apps=["blast"])
    runner.mill.forget_workers(["default"])
    assert "manual (idle); these workers can run it: able (idle)." in explain(runner)


def test_explain_names_a_group_without_a_live_worker(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/lonely", {})
    runner.define({"stepName": "a"}, workerGroup="lonely")
    runner.submit()
    runner.cloud.run_until(lambda: "group lonely has no live worker" in explain(runner))


def test_explain_names_the_slot_holder_and_the_reason_of_a_suspension(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("t1")
    runner.cloud.run_until(lambda: runner.job("t1")["state"] == "QUEUED")
    runner.submit("t2")
    runner.cloud.run_until(lambda: runner.job("t2")["state"] == "WAITING")
    assert "waits for a free slot: the concurrency of orders is 1" in explain(runner, "t2")
    assert "orders/t1 is QUEUED and holds a slot" in explain(runner, "t2")
    runner.cloud.http("POST", "/v1/jobs/orders/t1:suspend", {"reason": "lunch"})
    assert "suspended by admin: lunch" in explain(runner)


def test_explain_shows_the_first_failure_and_its_stderr(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()

    def report(outcome: str, **more: Any) -> None:
        runner.worker.report(runner.take(1), outcome, **more)

    report("failed-permanent", stderr="one\ntwo\nthe disk is full", exitCode=7)
    report("success")
    report("success")
    runner.run()
    explanation = explain(runner)
    assert "orders/t1 is FAILED." in explanation
    assert "The first task that failed is task" in explanation
    assert explanation.endswith("Its last lines on stderr:\none\ntwo\nthe disk is full")


def test_a_failure_names_its_task_by_step_and_index_and_shows_stdout_if_stderr_is_empty(
    runner: JobRunner,
) -> None:
    runner.define({"stepName": "first"}, {"stepName": "check", "sharding": 5, "startShardId": 3})
    job = runner.submit()

    def outcome_of(lease: Lease) -> str:
        failed = lease.step_name == "check" and lease.sharding.index == 4
        if failed:
            output = {"stdout": "1\n2\n3\n4\n5\n6: no such order\n", "stderr": " \n", "reason": "exit code 1"}
            runner.worker.report([lease], "failed-permanent", **output)
        return "success"  # rejected as stale for the failed task

    ended = runner.run(outcome_of)
    step = ended["steps"][1]
    assert step["notes"] == "1 of 2 tasks failed; the first was task 4 of step check: exit code 1"
    assert ended["notes"] == f"step check: {step['notes']}"
    assert ended["lastFailed"] == step["lastFailed"] == f"{job['id']}_1_1"
    notes = [event["detail"]["notes"] for event in runner.cloud.published() if "notes" in event["detail"]]
    assert all(job["id"] not in note for note in notes)
    assert ended["notes"] in notes
    explanation = explain(runner)
    assert "The first task that failed is task 4 of step check, attempt 1: exit code 1." in explanation
    assert explanation.endswith("Its last lines on stdout:\n2\n3\n4\n5\n6: no such order")


def test_explain_names_the_dependencies_of_a_waiting_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, dependencies=["other"])
    runner.submit(dataTime="2026-01-01T00:00:00Z")
    assert explain(runner).startswith("orders/t1 waits for other of 2026-01-01T00:00:00Z.")
    assert "other is not defined: submit its job, remove the dependency" in explain(runner)
    runner.define({"stepName": "a"}, name="done")
    ScheduleClock(runner).save("2026-01-01 00:00", "done", cron="0 1 * * *")
    runner.cloud.tick(at("2026-01-01 01:00"))
    runner.run(trigger="20260101T010000Z-s", name="done")
    assert "done/20260101T010000Z-s succeeded at" in explain(runner, "20260101T010000Z-s", "done")
