"""Reruns of failed tasks, of all tasks, and of selected steps or tasks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.engine.control import rerun
from shardmill.engine.errors import JobNotEnded
from shardmill.model.actor import Actor
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards

CHAIN = (
    {"stepName": "a", "sharding": 3},
    {"stepName": "b", "sharding": 70, "dependentStep": "a"},
    {"stepName": "c", "dependentStep": "b"},
    {"stepName": "last", "phase": 1},
)


def act(runner: JobRunner, action: str, body: Any = None, status: int = 200) -> dict[str, Any]:
    response = runner.cloud.http("POST", f"/v1/jobs/orders/t1:{action}", body)
    assert response.status == status, response
    result: dict[str, Any] = response.json
    return result


def attempts(runner: JobRunner, step: str) -> list[int]:
    return [task["attempt"] for task in runner.step_tasks(step)]


def run_failing_job(runner: JobRunner) -> dict[str, Any]:
    """Run a Job in which tasks 3 and 69 of step `b` fail."""
    runner.define(*CHAIN)
    runner.submit()
    job = runner.run(fail_shards(3, 69, step="b"))
    assert (job["state"], runner.states()["c"]) == ("FAILED", "SKIPPED")
    return job


def take_leased(runner: JobRunner) -> list[tuple[str, int]]:
    """Return the tasks leased since the previous call."""
    tasks = sorted((lease.step_name, lease.sharding.index) for lease in runner.leased)
    runner.leased = []
    return tasks


def test_a_rerun_repeats_only_failed_tasks_by_default(runner: JobRunner) -> None:
    run_failing_job(runner)
    take_leased(runner)
    result = act(runner, "rerun", {"reason": "fixed it"})
    assert (result["state"], result["run"]) == ("INIT", 2)
    job = runner.run()
    assert job["state"] == "SUCCESS"
    assert runner.states() == {"a": "SUCCESS", "b": "SUCCESS", "c": "SUCCESS", "last": "SUCCESS"}
    assert take_leased(runner) == [("b", 3), ("b", 69), ("c", 0)]
    assert [step["counts"] for step in job["steps"]] == [
        {"SUCCESS": 3},
        {"SUCCESS": 70},
        {"SUCCESS": 1},
        {"SUCCESS": 1},
    ]
    assert [attempt for attempt in attempts(runner, "b") if attempt != 1] == [2, 2]
    task = runner.task("b", 3)
    assert [(each["attempt"], each["outcome"]) for each in task["attempts"]] == [
        (1, "failed-permanent"),
        (2, "success"),
    ]


def test_earlier_runs_stay_readable(runner: JobRunner) -> None:
    run_failing_job(runner)
    act(runner, "rerun")
    runner.run()
    old = runner.cloud.http("GET", "/v1/jobs/orders/t1?run=1").json
    assert [step["state"] for step in old["steps"]] == ["SUCCESS", "FAILED", "SKIPPED", "SUCCESS"]
    assert old["steps"][1]["counts"] == {"SUCCESS": 68, "FAILED": 2}
    tasks = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/b/tasks?run=1&state=FAILED").json["items"]
    assert [task["sharding"]["index"] for task in tasks] == [3, 69]
    assert runner.cloud.http("GET", "/v1/jobs/orders/t1?run=3").status == 404


def test_a_rerun_of_all_repeats_every_task(runner: JobRunner) -> None:
    run_failing_job(runner)
    take_leased(runner)
    act(runner, "rerun", {"scope": "all"})
    assert runner.run()["state"] == "SUCCESS"
    assert len(take_leased(runner)) == 75
    assert set(attempts(runner, "b")) == {2}


def test_a_rerun_of_named_tasks_keeps_succeeded_dependents(runner: JobRunner) -> None:
    runner.define(*CHAIN)
    runner.submit()
    runner.run()
    take_leased(runner)
    act(runner, "rerun", {"steps": ["b"], "shards": [1, 68]})
    assert runner.run()["state"] == "SUCCESS"
    assert take_leased(runner) == [("b", 1), ("b", 68)]
    assert runner.job()["steps"][1]["counts"] == {"SUCCESS": 70}


def test_a_rerun_of_a_named_step_also_runs_failed_and_skipped_dependents(runner: JobRunner) -> None:
    run_failing_job(runner)
    take_leased(runner)
    act(runner, "rerun", {"steps": ["a"]})
    job = runner.run()
    assert job["state"] == "SUCCESS"
    assert take_leased(runner) == [("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 69), ("c", 0)]


def test_recompute_repeats_a_step_and_all_its_dependents(runner: JobRunner) -> None:
    runner.define(*CHAIN)
    runner.submit()
    runner.run()
    take_leased(runner)
    act(runner, "recompute", {"stepName": "b"})
    assert runner.run()["state"] == "SUCCESS"
    assert {name for name, _ in take_leased(runner)} == {"b", "c"}
    assert act(runner, "recompute", {"stepName": "x"}, status=404)["code"] == "step-not-found"


def test_a_failed_rerun_can_be_repeated(runner: JobRunner) -> None:
    run_failing_job(runner)
    act(runner, "rerun")
    assert runner.run(fail_shards(3, step="b"))["state"] == "FAILED"
    act(runner, "rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert (runner.job()["run"], runner.task("b", 3)["attempt"], runner.task("b", 69)["attempt"]) == (3, 3, 2)
    assert runner.task("a", 0)["state"] == "SUCCESS"


def test_a_rerun_of_a_killed_job_repeats_only_unfinished_tasks(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(10)
    runner.worker.report(held[:4])
    act(runner, "kill")
    take_leased(runner)
    act(runner, "rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert len(take_leased(runner)) == 17
    assert {each.status for each in runner.worker.report(held[4:])} == {"stale-attempt"}


def test_a_suspended_job_can_be_rerun(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    held = runner.take(2)
    runner.worker.report(held[:1])
    act(runner, "suspend")
    act(runner, "rerun")
    job = runner.run()
    assert (job["state"], job["run"], job["steps"][0]["counts"]) == ("SUCCESS", 2, {"SUCCESS": 3})


def test_resuming_a_job_suspended_by_a_failure_reruns_what_failed(runner: JobRunner) -> None:
    runner.define(*CHAIN, onFailure="suspend")
    runner.submit()
    assert runner.run(fail_shards(3, step="b"))["state"] == "SUSPENDED"
    assert act(runner, "resume")["run"] == 2
    assert runner.run()["state"] == "SUCCESS"
    assert {lease.step_name for lease in runner.leased if lease.run == 2} == {"b", "c"}


def test_a_rerun_is_rejected_while_a_job_runs_or_if_nothing_failed(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    assert act(runner, "rerun", status=409)["code"] == "job-not-ended"
    runner.run()
    assert act(runner, "rerun", status=409)["code"] == "conflict"


def test_concurrent_reruns_create_one_run(runner: JobRunner) -> None:
    run_failing_job(runner)
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None

    def rerun_once(_: int) -> JobRow | None:
        try:
            return rerun.rerun(runner.mill, job, rerun.Scope(), Actor("me"), "", runner.worker.clock())
        except JobNotEnded:
            return None

    with ThreadPoolExecutor(6) as pool:
        created = [each for each in pool.map(rerun_once, range(6)) if each]
    assert [each.run for each in created] == [2]
    assert runner.run()["state"] == "SUCCESS"
    assert len(runner.cloud.executions("job")) == 2


def test_a_repeated_plan_does_not_reset_progress(runner: JobRunner) -> None:
    from shardmill.engine.jobs.plan import plan

    run_failing_job(runner)
    act(runner, "rerun")
    runner.cloud.run_until(lambda: runner.states().get("b") == "READY")
    held = runner.take(2)
    runner.worker.report(held)
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    plan(runner.mill, job.id, job.run, runner.worker.clock())
    assert runner.run()["state"] == "SUCCESS"
    assert runner.job()["steps"][1]["counts"] == {"SUCCESS": 70}


def test_the_history_contains_every_run(runner: JobRunner) -> None:
    run_failing_job(runner)
    act(runner, "rerun", {"reason": "fixed it"})
    runner.run()
    items = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    [entry] = [each for each in items if each["state"] == "INIT" and each["reason"] == "fixed it"]
    assert entry["actor"] == "admin"
    assert {each["run"] for each in items if each["stepName"] == "b"} == {1, 2}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"scope": "all", "steps": ["a"]}, "both-spellings"),
        ({"shards": [1]}, "missing-field"),
        ({"steps": ["a", "b"], "shards": [1]}, "missing-field"),
        ({"scope": "some"}, "bad-value"),
    ],
    ids=str,
)
def test_invalid_requests_are_rejected(runner: JobRunner, body: Any, code: str) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    assert [each["code"] for each in act(runner, "rerun", body, status=422)["faults"]] == [code]


def test_a_rerun_reaches_tasks_beyond_the_window_without_the_tick(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2})
    runner.submit()
    assert runner.run(fail_shards(7))["state"] == "FAILED"
    runner.post("/v1/jobs/orders/t1:rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert [task["attempt"] for task in runner.step_tasks("a")] == [1] * 7 + [2, 1, 1]


@pytest.mark.parametrize("end", [":kill", ":force"])
def test_a_suspended_job_that_was_killed_or_forced_can_be_rerun(runner: JobRunner, end: str) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit()
    held = runner.take(1)
    runner.post("/v1/jobs/orders/t1:suspend", {"letFinish": True})
    runner.post(f"/v1/jobs/orders/t1{end}", {"state": "FAILED"} if end == ":force" else None)
    runner.worker.report(held)
    runner.post("/v1/jobs/orders/t1:rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert runner.job()["run"] == 2


def test_the_end_of_a_run_is_published_before_the_job_is_rerun(runner: JobRunner, faults: Faults) -> None:
    """The event bus did not answer when the run ended."""
    runner.define({"stepName": "a"})
    runner.submit()
    faults.fail("events", "PutEvents", how="before", times=30)
    runner.cloud.run_until(runner.ended, 30, meanwhile=lambda: runner.work(fail_shards(0)))
    faults.clear_faults()
    act(runner, "rerun")
    ends = [event["detail"] for event in runner.cloud.published() if event["detail-type"] == "Job Ended"]
    assert {(each["run"], each["state"]) for each in ends} == {(1, "FAILED")}
