"""The state of a Job from the results of its tasks, with the real state machines."""

from typing import Any

import pytest

from shardmill.engine.jobs import plan
from shardmill.engine.running import release
from shardmill.model.states import JobState
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards


def test_a_chain_runs_in_order(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "dependentStep": "b"}
    )
    runner.submit()
    job = runner.run()
    assert job["state"] == "SUCCESS"
    assert [lease.step_name for lease in runner.leased] == ["a", "b", "c"]
    assert job["startedTime"] <= job["completedTime"]
    assert job["remainTasks"] == 0


def test_the_last_step_of_a_diamond_runs_once(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "sharding": 3, "dependentStep": "a"},
        {"stepName": "c", "sharding": 2, "dependentSteps": ["a"]},
        {"stepName": "d", "dependency": {"steps": ["b", "c"]}},
    )
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    order = [lease.step_name for lease in runner.leased]
    assert sorted(order) == ["a", "b", "b", "b", "c", "c", "d"]
    assert order[0] == "a"
    assert order[-1] == "d"


def test_a_wide_step_runs_every_shard_once(runner: JobRunner) -> None:
    runner.define({"stepName": "wide", "sharding": 150})
    runner.submit()
    job = runner.run()
    assert job["steps"][0]["counts"] == {"SUCCESS": 150}
    assert sorted(lease.sharding.index for lease in runner.leased) == list(range(150))
    assert {lease.sharding.total for lease in runner.leased} == {150}


@pytest.mark.parametrize(
    ("tolerated", "state"),
    [(0, "FAILED"), (1, "FAILED"), (2, "SUCCESS"), ("19%", "FAILED"), ("20%", "SUCCESS")],
)
def test_failures_are_tolerated_up_to_the_limit(runner: JobRunner, tolerated: int | str, state: str) -> None:
    runner.define({"stepName": "a", "sharding": 10, "toleratedFailures": tolerated})
    runner.submit()
    job = runner.run(fail_shards(3, 7))
    assert job["state"] == state
    assert job["steps"][0]["counts"] == {"SUCCESS": 8, "FAILED": 2}
    if state == "FAILED":
        assert job["lastFailed"] == f"{job['id']}_0_3"
        assert "2 of 10 tasks failed" in job["notes"]


def test_a_failed_step_skips_only_its_dependents(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "bad"},
        {"stepName": "child", "dependentStep": "bad"},
        {"stepName": "grandchild", "dependentStep": "child"},
        {"stepName": "apart"},
    )
    runner.submit()
    job = runner.run(fail_shards(0, step="bad"))
    assert job["state"] == "FAILED"
    assert runner.states() == {
        "bad": "FAILED",
        "child": "SKIPPED",
        "grandchild": "SKIPPED",
        "apart": "SUCCESS",
    }


def test_a_step_that_can_fail_lets_its_dependents_run(runner: JobRunner) -> None:
    runner.define({"stepName": "maybe", "canFail": True}, {"stepName": "next", "dependentStep": "maybe"})
    runner.submit()
    assert runner.run(fail_shards(0, step="maybe"))["state"] == "SUCCESS"
    assert runner.states() == {"maybe": "TOLERATED", "next": "SUCCESS"}


def test_a_phase_waits_for_all_steps_of_the_earlier_phase(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "one"},
        {"stepName": "two", "dependentStep": "one"},
        {"stepName": "three"},
        {"stepName": "clean", "phase": 5},
        {"stepName": "last", "phase": 9},
    )
    runner.submit()
    job = runner.run(fail_shards(0, step="one"))
    assert job["state"] == "FAILED"
    assert runner.states() == {
        "one": "FAILED",
        "two": "SKIPPED",
        "three": "SUCCESS",
        "clean": "SUCCESS",
        "last": "SUCCESS",
    }
    order = [lease.step_name for lease in runner.leased]
    assert order[-2:] == ["clean", "last"]


def test_each_packed_task_gets_its_range(runner: JobRunner) -> None:
    runner.define({"stepName": "p", "stepType": "PACK", "packConf": {"size": 4, "start": 10, "end": 19}})
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    packs = sorted((lease.pack.start, lease.pack.end) for lease in runner.leased if lease.pack)
    assert packs == [(10, 13), (14, 17), (18, 19)]


def test_shard_indexes_start_at_start_shard_id(runner: JobRunner) -> None:
    runner.define({"stepName": "s", "stepType": "SHARD", "shardConf": {"shard": 4, "startShardId": 2}})
    runner.submit()
    runner.run()
    assert runner.step("s")["taskStates"] == {"2": "SUCCESS", "3": "SUCCESS"}
    assert runner.task("s", 3)["sharding"] == {"total": 4, "index": 3}
    assert [lease.environ["SHARDMILL_SHARD_TOTAL"] for lease in runner.leased] == ["4", "4"]
    for absent in (0, 1, 4):
        assert runner.cloud.http("GET", f"/v1/jobs/orders/t1/steps/s/tasks/{absent}").status == 404
    missing = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/s/tasks/1")
    assert (missing.status, missing.json["detail"]) == (404, "step 's' has no task 1; its tasks are 2 to 3")


def test_a_step_starts_after_its_done_steps_with_any_outcome(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "load", "sharding": 2},
        {"stepName": "check", "dependentStep": "load"},
        {"stepName": "clean", "dependency": {"doneSteps": ["load", "check"]}},
        {"stepName": "mail", "dependentStep": "check", "dependency": {"doneSteps": ["check", "clean"]}},
        {"stepName": "skip", "when": "{{ false }}"},
        {"stepName": "last", "doneSteps": ["skip"]},
    )
    runner.submit()
    assert runner.run(fail_shards(1, step="load"))["state"] == "FAILED"
    expected = {
        "load": "FAILED",
        "check": "SKIPPED",
        "clean": "SUCCESS",
        "mail": "SKIPPED",
        "skip": "SKIPPED",
        "last": "SUCCESS",
    }
    assert runner.states() == expected
    order = [lease.step_name for lease in runner.leased if lease.step_name in ("load", "clean")]
    assert order == ["load", "load", "clean"]
    runner.post("/v1/jobs/orders/t1:rerun", {})
    runner.run()
    assert runner.states() == dict.fromkeys(expected, "SUCCESS") | {"skip": "SKIPPED"}


def test_a_rerun_keeps_the_steps_that_ran_after_a_failure(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"}, {"stepName": "b", "doneSteps": ["a"]}, {"stepName": "c", "doneSteps": ["b"]}
    )
    runner.submit()
    runner.run(fail_shards(0, step="c"))
    runner.post("/v1/jobs/orders/t1:rerun", {})
    assert runner.run()["state"] == "SUCCESS"
    assert [lease.step_name for lease in runner.leased] == ["a", "b", "c", "c"]


def test_fail_fast_kills_tasks_that_are_not_leased(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "f", "sharding": 200, "failFast": True, "maxTaskCount": 20},
        {"stepName": "g", "dependentStep": "f"},
    )
    runner.submit()
    job = runner.run(fail_shards(5))
    counts = job["steps"][0]["counts"]
    assert job["state"] == "FAILED"
    assert counts["FAILED"] == 1
    assert counts["KILLED"] > 150
    assert sum(counts.values()) == 200
    assert runner.states() == {"f": "FAILED", "g": "SKIPPED"}
    assert "stopped" in job["steps"][0]["notes"]


def test_fail_fast_waits_for_leased_tasks(runner: JobRunner) -> None:
    runner.define({"stepName": "f", "sharding": 100, "failFast": True, "maxTaskCount": 10})
    runner.submit()
    held = runner.take(10)
    runner.cloud.run_until(lambda: runner.row(0).token)
    runner.worker.report(held[:1], "failed-permanent")
    runner.cloud.run_until(lambda: runner.row(0).swept)
    assert runner.job()["state"] == "RUNNING"
    counts = runner.job()["steps"][0]["counts"]
    assert counts == {"FAILED": 1, "RUNNING": 9, "KILLED": 90}
    runner.worker.report(held[1:5], "success")
    runner.worker.report(held[5:], "failed", reason="discarded")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "SUCCESS": 4, "KILLED": 95}


def test_a_step_stopped_before_it_waits_is_completed_by_the_next_heartbeat(runner: JobRunner) -> None:
    runner.define({"stepName": "f", "sharding": 100, "failFast": True, "maxTaskCount": 10})
    runner.submit()
    held = runner.take(10)
    runner.mill.jobs.stop_step(runner.row(0), notes="stopped early")
    runner.cloud.run_until(lambda: runner.row(0).token)
    assert not runner.row(0).swept
    assert sorted(runner.worker.beat(held)) == sorted(lease.task_id for lease in held)
    runner.cloud.run_until(lambda: runner.row(0).swept)
    runner.worker.report(held, "failed", reason="discarded")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"KILLED": 100}


def test_on_failure_suspend_keeps_the_job_for_repair(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, onFailure="suspend")
    runner.submit()
    job = runner.run(fail_shards(0))
    assert job["state"] == "SUSPENDED"
    assert job["lastFailed"] == f"{job['id']}_0_0"
    assert job["notes"]


def test_the_number_of_leased_tasks_does_not_exceed_max_task_count(runner: JobRunner) -> None:
    """At most maxTaskCount tasks of a step are leased, and the end of one releases the next."""
    runner.define({"stepName": "w", "sharding": 30, "maxTaskCount": 4})
    runner.submit()
    seen: list[int] = []
    held = runner.take(4)
    while held:
        assert runner.worker.take() == []
        seen.append(held[0].sharding.index)
        runner.worker.report(held[:1])
        held = held[1:] + runner.worker.take()
    assert sorted(seen) == list(range(30))
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_the_number_of_state_transitions_stays_within_its_budget(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    runner.run()
    runner.cloud.wait_for_executions()
    [job] = runner.cloud.executions("job")
    steps = runner.cloud.executions("step")
    first, second = (runner.cloud.transitions(step["executionArn"]) for step in steps)
    assert runner.cloud.transitions(job["executionArn"]) + first <= 6
    assert second <= 4


def test_the_ends_of_steps_and_of_the_job_are_published(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    job = runner.run(fail_shards(0, step="a"))
    events = [event for event in runner.cloud.published() if event["source"] == "shardmill"]
    published = [(e["detail-type"], e["detail"].get("stepName"), e["detail"]["state"]) for e in events]
    assert published == [
        ("Step Ended", "a", "FAILED"),
        ("Step Ended", "b", "SKIPPED"),
        ("Job Ended", None, "FAILED"),
    ]
    assert {event["detail"]["jobId"] for event in events} == {job["id"]}
    assert {event["detail"]["schemaVersion"] for event in events} == {1}


def test_releasing_a_step_twice_visits_each_step_once(runner: JobRunner, faults: Faults) -> None:
    """Each layer of four steps depends on the whole previous layer; a repeat must not walk every path."""
    layers: list[dict[str, Any]] = [{"stepName": "root"}]
    before = ["root"]
    for depth in range(4):
        names = [f"s{depth}_{n}" for n in range(4)]
        layers += [{"stepName": name, "dependentSteps": before} for name in names]
        before = names
    runner.define(*layers)
    runner.submit()
    job = runner.run(fail_shards(0))
    assert job["state"] == "FAILED"
    row = runner.mill.jobs.find("orders", "t1")
    assert row is not None
    faults.meter.reset()
    running = row.evolve(state=JobState.RUNNING)
    release.release_dependents(runner.mill, running, runner.row(0), runner.worker.clock())
    assert faults.meter.total_calls < 100


def test_a_repeated_plan_does_not_restart_an_ended_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    job = runner.run()
    moved = runner.mill.jobs.move(
        job["id"], 1, JobState.QUEUED, sources=(JobState.INIT, JobState.WAITING), now=1, due=None
    )
    assert moved is None
    assert plan.plan(runner.mill, job["id"], 1, runner.worker.clock()) is False
    assert runner.job()["state"] == "SUCCESS"


def test_a_failed_job_stays_failed_when_ended_again(runner: JobRunner) -> None:
    from shardmill.engine.running.finish import end_job

    runner.define({"stepName": "a"})
    runner.submit()
    runner.run(fail_shards(0))
    row = runner.mill.jobs.find("orders", "t1")
    assert row is not None
    runner.mill.jobs.move_step(runner.row(0), runner.row(0).state, now=1)
    end_job(runner.mill, row, runner.worker.clock())
    assert runner.job()["state"] == "FAILED"
