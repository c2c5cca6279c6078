"""What becomes of a Job from what becomes of its tasks: the real state machines, on moto."""

import pytest

from support.play import Play, fail_shards


def test_chain_runs_in_order(play: Play) -> None:
    play.define(
        {"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "dependentStep": "b"}
    )
    play.submit()
    job = play.run()
    assert job["state"] == "SUCCESS"
    assert [lease.step_name for lease in play.leased] == ["a", "b", "c"]
    assert job["startedTime"] <= job["completedTime"]
    assert job["remainTasks"] == 0


def test_diamond_joins_once(play: Play) -> None:
    play.define(
        {"stepName": "a"},
        {"stepName": "b", "sharding": 3, "dependentStep": "a"},
        {"stepName": "c", "sharding": 2, "dependentSteps": ["a"]},
        {"stepName": "d", "dependency": {"steps": ["b", "c"]}},
    )
    play.submit()
    assert play.run()["state"] == "SUCCESS"
    order = [lease.step_name for lease in play.leased]
    assert sorted(order) == ["a", "b", "b", "b", "c", "c", "d"]
    assert order[0] == "a"
    assert order[-1] == "d"


def test_wide_step_runs_every_shard_once(play: Play) -> None:
    play.define({"stepName": "wide", "sharding": 150})
    play.submit()
    job = play.run()
    assert job["steps"][0]["counts"] == {"SUCCESS": 150}
    assert sorted(lease.sharding.index for lease in play.leased) == list(range(150))
    assert {lease.sharding.total for lease in play.leased} == {150}


@pytest.mark.parametrize(
    ("tolerated", "state"),
    [(0, "FAILED"), (1, "FAILED"), (2, "SUCCESS"), ("19%", "FAILED"), ("20%", "SUCCESS")],
)
def test_failures_are_tolerated_up_to_the_limit(play: Play, tolerated: int | str, state: str) -> None:
    play.define({"stepName": "a", "sharding": 10, "toleratedFailures": tolerated})
    play.submit()
    job = play.run(fail_shards(3, 7))
    assert job["state"] == state
    assert job["steps"][0]["counts"] == {"SUCCESS": 8, "FAILED": 2}
    if state == "FAILED":
        assert job["lastFailed"] == f"{job['id']}_0_3"
        assert "2 of 10 tasks failed" in job["notes"]


def test_a_failed_step_skips_what_depends_on_it_and_nothing_else(play: Play) -> None:
    play.define(
        {"stepName": "bad"},
        {"stepName": "child", "dependentStep": "bad"},
        {"stepName": "grandchild", "dependentStep": "child"},
        {"stepName": "apart"},
    )
    play.submit()
    job = play.run(fail_shards(0, step="bad"))
    assert job["state"] == "FAILED"
    assert play.states() == {"bad": "FAILED", "child": "SKIPPED", "grandchild": "SKIPPED", "apart": "SUCCESS"}


def test_a_step_that_can_fail_lets_its_dependents_run(play: Play) -> None:
    play.define({"stepName": "maybe", "canFail": True}, {"stepName": "next", "dependentStep": "maybe"})
    play.submit()
    assert play.run(fail_shards(0, step="maybe"))["state"] == "SUCCESS"
    assert play.states() == {"maybe": "TOLERATED", "next": "SUCCESS"}


def test_a_later_phase_waits_for_the_whole_earlier_one_whatever_its_outcome(play: Play) -> None:
    play.define(
        {"stepName": "one"},
        {"stepName": "two", "dependentStep": "one"},
        {"stepName": "three"},
        {"stepName": "clean", "phase": 5},
        {"stepName": "last", "phase": 9},
    )
    play.submit()
    job = play.run(fail_shards(0, step="one"))
    assert job["state"] == "FAILED"
    assert play.states() == {
        "one": "FAILED",
        "two": "SKIPPED",
        "three": "SUCCESS",
        "clean": "SUCCESS",
        "last": "SUCCESS",
    }
    order = [lease.step_name for lease in play.leased]
    assert order[-2:] == ["clean", "last"]


def test_pack_gives_each_task_its_range(play: Play) -> None:
    play.define({"stepName": "p", "stepType": "PACK", "packConf": {"size": 4, "start": 10, "end": 19}})
    play.submit()
    assert play.run()["state"] == "SUCCESS"
    packs = sorted((lease.pack.start, lease.pack.end) for lease in play.leased if lease.pack)
    assert packs == [(10, 13), (14, 17), (18, 19)]


def test_start_shard_id_counts_from_there(play: Play) -> None:
    play.define({"stepName": "s", "stepType": "SHARD", "shardConf": {"shard": 3, "startShardId": 1}})
    play.submit()
    play.run()
    assert play.step("s")["taskStates"] == {"1": "SUCCESS", "2": "SUCCESS", "3": "SUCCESS"}
    assert play.task("s", 3)["sharding"] == {"total": 3, "index": 3}
    assert play.cloud.http("GET", "/v1/jobs/play/t1/steps/s/tasks/0").status == 404


def test_fail_fast_kills_what_nobody_holds(play: Play) -> None:
    play.define(
        {"stepName": "f", "sharding": 200, "failFast": True, "maxTaskCount": 20},
        {"stepName": "g", "dependentStep": "f"},
    )
    play.submit()
    job = play.run(fail_shards(5))
    counts = job["steps"][0]["counts"]
    assert job["state"] == "FAILED"
    assert counts["FAILED"] == 1
    assert counts["KILLED"] > 150
    assert sum(counts.values()) == 200
    assert play.states() == {"f": "FAILED", "g": "SKIPPED"}
    assert "stopped" in job["steps"][0]["notes"]


def test_fail_fast_waits_for_what_workers_hold(play: Play) -> None:
    play.define({"stepName": "f", "sharding": 100, "failFast": True, "maxTaskCount": 10})
    play.submit()
    held = play.take(10)
    play.cloud.run_until(lambda: play.row(0).token)
    play.hands.report(held[:1], "failed-permanent")
    play.cloud.run_until(lambda: play.row(0).swept)
    assert play.job()["state"] == "RUNNING"
    counts = play.job()["steps"][0]["counts"]
    assert counts == {"FAILED": 1, "RUNNING": 9, "KILLED": 90}
    play.hands.report(held[1:5], "success")
    play.hands.report(held[5:], "failed", reason="discarded")
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    assert play.job()["steps"][0]["counts"] == {"FAILED": 1, "SUCCESS": 4, "KILLED": 95}


def test_a_step_told_to_stop_before_it_waits_is_woken_by_the_next_heartbeat(play: Play) -> None:
    play.define({"stepName": "f", "sharding": 100, "failFast": True, "maxTaskCount": 10})
    play.submit()
    held = play.take(10)
    play.mill.jobs.stop_step(play.row(0), notes="told to stop early")
    play.cloud.run_until(lambda: play.row(0).token)
    assert not play.row(0).swept
    assert sorted(play.hands.beat(held)) == sorted(lease.task_id for lease in held)
    play.cloud.run_until(lambda: play.row(0).swept)
    play.hands.report(held, "failed", reason="discarded")
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    assert play.job()["steps"][0]["counts"] == {"KILLED": 100}


def test_on_failure_suspend_keeps_the_job_for_repair(play: Play) -> None:
    play.define({"stepName": "a"}, onFailure="suspend")
    play.submit()
    job = play.run(fail_shards(0))
    assert job["state"] == "SUSPENDED"
    assert job["lastFailed"] == f"{job['id']}_0_0"
    assert job["notes"]


def test_window_is_exact(play: Play) -> None:
    """Never more than maxTaskCount tasks of a step are alive, and the end of one brings the next."""
    play.define({"stepName": "w", "sharding": 30, "maxTaskCount": 4})
    play.submit()
    seen: list[int] = []
    held = play.take(4)
    while held:
        assert play.hands.take() == []
        seen.append(held[0].sharding.index)
        play.hands.report(held[:1])
        held = held[1:] + play.hands.take()
    assert sorted(seen) == list(range(30))
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")


def test_transitions_stay_within_their_budget(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    play.run()
    play.cloud.wait_for_executions()
    [job] = play.cloud.executions("job")
    steps = play.cloud.executions("step")
    first, second = (play.cloud.transitions(step["executionArn"]) for step in steps)
    assert play.cloud.transitions(job["executionArn"]) + first <= 10
    assert second <= 6


def test_the_ends_of_steps_and_of_the_job_are_published(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    job = play.run(fail_shards(0, step="a"))
    events = [event for event in play.cloud.published() if event["source"] == "shardmill"]
    told = [(e["detail-type"], e["detail"].get("stepName"), e["detail"]["state"]) for e in events]
    assert told == [
        ("Step Ended", "a", "FAILED"),
        ("Step Ended", "b", "SKIPPED"),
        ("Job Ended", None, "FAILED"),
    ]
    assert {event["detail"]["jobId"] for event in events} == {job["id"]}
    assert {event["detail"]["schemaVersion"] for event in events} == {1}
