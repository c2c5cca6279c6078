"""Suspending, resuming and killing Jobs, raced against workers, ends and each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.control import suspend
from shardmill.engine.running import kill
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from support.call import ProcessKilled
from support.faults import Faults
from support.play import Play

ME = Actor("me")


def act(play: Play, action: str, body: Any = None, trigger: str = "t1", status: int = 200) -> dict[str, Any]:
    answer = play.cloud.http("POST", f"/v1/jobs/play/{trigger}:{action}", body)
    assert answer.status == status, answer
    told: dict[str, Any] = answer.json
    return told


def counts(play: Play, step: int = 0) -> dict[str, int]:
    found: dict[str, int] = play.job()["steps"][step]["counts"]
    return found


def left_over(play: Play) -> list[str]:
    """The messages that could still start something, once workers know what has changed."""
    play.later(3)
    return [lease.task_id for lease in play.hands.take()]


def test_a_suspended_job_is_parked_and_goes_on_where_it_was(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(10)
    play.hands.report(held[:4])
    told = act(play, "suspend", {"reason": "wrong data"})
    assert (told["state"], told["notes"]) == ("SUSPENDED", "suspended by admin: wrong data")
    assert play.states() == {"a": "SUSPENDED", "b": "WAITING"}
    assert counts(play) == {"SUCCESS": 4, "RUNNING": 6, "SUSPENDED": 10}
    assert sorted(play.hands.beat(held[4:])) == sorted(lease.task_id for lease in held[4:])
    play.hands.report(held[4:], "failed", reason="discarded")
    assert counts(play) == {"SUCCESS": 4, "SUSPENDED": 16}
    assert left_over(play) == []
    assert act(play, "resume")["state"] == "RUNNING"
    job = play.run()
    assert (job["state"], counts(play), counts(play, 1)) == ("SUCCESS", {"SUCCESS": 20}, {"SUCCESS": 1})
    assert all(task["failed"] == 0 for task in play.step_tasks("a"))


def test_running_tasks_may_finish(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(2)
    act(play, "suspend", {"letFinish": True})
    assert play.hands.beat(held) == []
    assert [each.status for each in play.hands.report(held)] == ["ok", "ok"]
    assert counts(play) == {"SUCCESS": 2, "SUSPENDED": 1}
    act(play, "resume")
    assert play.run()["state"] == "SUCCESS"


def test_a_step_whose_last_task_ends_meanwhile_closes_and_the_next_waits_for_the_resume(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(1)
    act(play, "suspend", {"letFinish": True})
    play.hands.report(held)
    play.cloud.run_until(lambda: play.states()["a"] == "SUCCESS")
    assert play.states()["b"] == "WAITING"
    play.tick(minutes=5)
    assert (play.job()["state"], play.states()["b"]) == ("SUSPENDED", "WAITING")
    act(play, "resume")
    assert play.run()["state"] == "SUCCESS"


def test_a_job_that_ends_while_it_is_suspended_ends_when_it_is_resumed(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    held = play.take(1)
    act(play, "suspend", {"letFinish": True})
    play.hands.report(held)
    play.cloud.run_until(lambda: play.states()["a"] == "SUCCESS")
    assert play.job()["state"] == "SUSPENDED"
    act(play, "resume")
    assert play.job()["state"] == "SUCCESS"


def test_suspending_twice_and_resuming_twice_is_the_same_as_once(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.take(1)
    assert [act(play, "suspend")["state"] for _ in range(2)] == ["SUSPENDED"] * 2
    assert [act(play, "resume")["state"] for _ in range(2)] == ["RUNNING"] * 2
    states = [each["state"] for each in play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]]
    assert states.count("SUSPENDED") == 2  # the Job's and the step's


def test_a_job_suspended_before_it_was_planned_starts_when_resumed(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"})
    faults.fail("stepfunctions", "StartExecution", how="before")
    play.submit()
    assert act(play, "suspend")["state"] == "SUSPENDED"
    play.tick(minutes=3)
    assert play.job()["state"] == "SUSPENDED"
    act(play, "resume")
    assert play.run()["state"] == "SUCCESS"


def test_a_suspended_job_gives_its_slot_and_waits_for_one_again(play: Play) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.submit("t1")
    play.cloud.run_until(lambda: play.job("t1")["state"] == "QUEUED")
    play.submit("t2")
    play.cloud.run_until(lambda: play.job("t2")["state"] == "WAITING")
    act(play, "suspend", trigger="t1")
    play.cloud.run_until(lambda: play.job("t2")["state"] == "QUEUED")
    assert act(play, "resume", trigger="t1")["state"] == "WAITING"
    assert play.run(trigger="t2")["state"] == "SUCCESS"
    assert play.run(trigger="t1")["state"] == "SUCCESS"


def test_an_ended_job_is_not_suspended_and_says_how_it_ended(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.run()
    for action in ("suspend", "resume", "kill"):
        told = act(play, action, status=409)
        assert (told["code"], "SUCCESS" in told["detail"]) == ("job-ended", True)


@pytest.mark.parametrize("nth", range(1, 5))
@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_a_suspension_that_breaks_off_is_finished_by_the_tick(play: Play, nth: int, how: Any) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    play.submit()
    held = play.take(1)
    play.cloud.run_until(lambda: all(play.row(at).token for at in (0, 1)))
    job = play.mill.jobs.find("play", "t1")
    assert job is not None
    with Faults() as faults, suppress(ClientError, BotoCoreError, ProcessKilled):
        faults.fail("dynamodb", "UpdateItem", nth=nth, how=how)
        suspend.suspend(play.mill, job, ME, "", play.hands.clock(), let_finish=False)
    if play.job()["state"] == "SUSPENDED":
        play.tick(minutes=3)
        assert play.states() == {"a": "SUSPENDED", "b": "SUSPENDED"}
        present = play.mill.jobs.find("play", "t1")
        assert present is not None
        assert not present.event_pending
        act(play, "resume")
    play.hands.report(held)
    assert play.run()["state"] == "SUCCESS"


def test_suspend_and_resume_at_once_agree_in_the_end(play: Play) -> None:
    play.define(*({"stepName": f"s{n}", "sharding": 3} for n in range(4)))
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and all(play.row(at).token for at in range(4)))
    job = play.mill.jobs.find("play", "t1")
    assert job is not None
    now = play.hands.clock()

    def one(number: int) -> None:
        present = play.mill.jobs.get(job.id)
        assert present is not None
        if number % 2:
            suspend.resume(play.mill, present, ME, "", now)
        else:
            suspend.suspend(play.mill, present, ME, "", now, let_finish=False)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one, range(12)))
    play.tick(minutes=3)
    present = play.mill.jobs.get(job.id)
    assert present is not None
    suspended = present.state is JobState.SUSPENDED
    assert {row.state.value == "SUSPENDED" for row in map(play.row, range(4))} == {suspended}
    act(play, "resume")
    play.tick(minutes=6)
    assert play.run()["state"] == "SUCCESS"


def test_a_killed_job_is_over_at_once_and_nothing_of_it_is_left(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(3)
    play.hands.report(held[:1])
    told = act(play, "kill", {"reason": "enough"})
    assert (told["state"], told["notes"]) == ("KILLED", "killed by admin: enough")
    assert play.states() == {"a": "KILLED", "b": "KILLED"}
    assert counts(play) == {"SUCCESS": 1, "KILLED": 19}
    assert sorted(play.hands.beat(held[1:])) == sorted(lease.task_id for lease in held[1:])
    assert {each.status for each in play.hands.report(held[1:])} == {"stale-attempt"}
    assert left_over(play) == []
    assert counts(play) == {"SUCCESS": 1, "KILLED": 19}
    assert play.cloud.executions(status="RUNNING") == []
    assert play.cloud.settle() == [e["executionArn"] for e in play.cloud.executions(status="ABORTED")]
    assert act(play, "kill")["state"] == "KILLED"
    assert play.job()["state"] == "KILLED"


@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("how", ["after", "crash"])
def test_a_kill_that_breaks_off_is_finished_by_the_tick(play: Play, nth: int, how: Any) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    play.submit()
    held = play.take(1)
    play.cloud.run_until(lambda: all(play.row(at).token for at in (0, 1)))
    job = play.mill.jobs.find("play", "t1")
    assert job is not None
    with Faults() as faults, suppress(ClientError, BotoCoreError, ProcessKilled):
        faults.fail("dynamodb", "UpdateItem", nth=nth, how=how)
        kill.kill(play.mill, job, "me", "", play.hands.clock())
    play.tick(minutes=3)
    assert (play.job()["state"], play.states()) == ("KILLED", {"a": "KILLED", "b": "KILLED"})
    assert [step["counts"] for step in play.job()["steps"]] == [{"KILLED": 3}, {"KILLED": 1}]
    assert play.hands.beat(held) == [held[0].task_id]
    assert left_over(play) == []
    play.cloud.run_until(lambda: not play.cloud.executions(status="RUNNING"))


def test_a_killed_step_spoils_what_depends_on_it_and_no_more(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 5}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)
    act(play, "kill", {"stepName": "a"})
    job = play.run()
    assert (job["state"], play.states()) == ("FAILED", {"a": "KILLED", "b": "SKIPPED", "c": "SUCCESS"})
    assert counts(play) == {"KILLED": 5}
    assert "killed by admin" in job["notes"]


def test_a_step_that_waits_can_be_killed(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"])
    act(play, "kill", {"stepName": "b"})
    assert play.run()["state"] == "FAILED"
    assert play.states() == {"a": "SUCCESS", "b": "KILLED"}


@pytest.mark.parametrize(("action", "wish"), [("kill", {}), ("force", {"state": "SUCCESS"})])
def test_a_phase_is_not_over_while_a_step_before_an_ended_one_runs(
    play: Play, action: str, wish: Any
) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "phase": 1})
    play.submit()
    [held] = play.take(1)
    act(play, action, {"stepName": "b", **wish})
    play.tick(2)
    assert play.states()["c"] == "WAITING"
    assert not play.ended()
    play.hands.report([held])
    play.run()
    assert play.states()["a"] == play.states()["c"] == "SUCCESS"


@pytest.mark.parametrize("leased", [True, False])
def test_one_task_is_killed(play: Play, leased: bool) -> None:
    play.define({"stepName": "a", "sharding": 3, "maxTaskCount": 3 if leased else 1, "toleratedFailures": 1})
    play.submit()
    held = play.take(1)
    index = held[0].sharding.index if leased else 2
    act(play, "kill", {"stepName": "a", "index": index})
    assert play.task("a", index)["state"] == "KILLED"
    assert play.hands.beat(held) == ([held[0].task_id] if leased else [])
    assert [each.status for each in play.hands.report(held)] == ["stale-attempt" if leased else "ok"]
    job = play.run()
    assert (job["state"], counts(play)) == ("FAILED", {"SUCCESS": 2, "KILLED": 1})


def test_nonsense_is_refused(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)
    assert act(play, "kill", {"index": 3}, status=422)["faults"][0]["code"] == "missing-field"
    assert act(play, "kill", {"stepName": "x"}, status=404)["code"] == "step-not-found"
    assert act(play, "kill", {"stepName": "a", "index": 9}, status=404)["code"] == "task-not-found"
    assert act(play, "suspend", {"why": "x"}, status=422)["faults"][0]["code"] == "unknown-field"
    assert act(play, "suspend", trigger="none", status=404)["code"] == "job-not-found"


def test_the_history_names_who_and_why(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    held = play.take(1)
    act(play, "suspend", {"reason": "wait a moment"})
    act(play, "resume", {"reason": "go"})
    play.hands.report(held, "failed", reason="discarded")
    play.run()
    items = play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]
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
