"""Changing a Job that runs: what is leased ends as it began, all else follows the new word."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from shardmill.engine.control import change as change_module
from shardmill.model.actor import Actor
from support.faults import Faults, How
from support.hands import Hands
from support.play import Play, fail_shards

ME = Actor("me")


def change(play: Play, status: int = 200, *, action: str = "change", **wish: Any) -> Any:
    answer = play.cloud.http("POST", f"/v1/jobs/play/t1:{action}", wish)
    assert answer.status == status, answer
    return answer.json


@pytest.fixture
def other(play: Play) -> Hands:
    play.cloud.http("PUT", "/v1/groups/other", {})
    return Hands(play.mill, "other", ["other"])


def test_what_waits_moves_to_another_group(play: Play, other: Hands) -> None:
    play.define({"stepName": "a", "sharding": 5}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(2)
    change(play, action="group", workerGroups=["other"], reason="more memory")
    play.later(3)
    assert play.hands.take() == []
    play.hands.report(held)
    other.clock = play.hands.clock
    play.hands = other
    job = play.run()
    assert (job["state"], job["workerGroups"]) == ("SUCCESS", ["other"])
    by_worker = [task["worker"] == other.worker.id for task in play.step_tasks("a")]
    assert sorted(by_worker) == [False, False, True, True, True]
    history = play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]
    assert "changed workerGroups to other: more memory" in [each["reason"] for each in history]


def test_one_step_is_changed_and_the_others_are_not(play: Play, other: Hands) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    change(play, stepName="b", workerGroups=["other"], failedRetries=4, timeoutSeconds=60, priority=11)
    play.cloud.run_until(lambda: play.states() == {"a": "READY", "b": "WAITING"}, 10)
    a, b = play.row(0), play.row(1)
    assert (a.groups, a.priority, a.spec["failedRetries"]) == (["default"], 1, 0)
    assert (b.groups, b.priority, b.spec["failedRetries"], b.spec["timeoutSeconds"]) == (["other"], 11, 4, 60)
    assert play.job()["priority"] == 1


def test_a_window_grows_and_shrinks(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 40, "maxTaskCount": 2})
    play.submit()
    held = play.take(2)
    assert play.hands.take() == []
    change(play, maxTaskCount=10)
    play.later(3)
    held += play.take(8)
    assert play.hands.take() == []
    change(play, maxTaskCount=3)
    play.later(6)
    play.hands.report(held)
    alive = play.take(3)
    assert play.hands.take() == []
    play.hands.report(alive)
    assert play.run()["state"] == "SUCCESS"


def test_retries_are_given_to_a_job_that_fails(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 2, "failedInterval": 0})
    play.submit()
    held = play.take(2)
    change(play, failedRetries=1)
    play.later(3)
    play.hands.report(held, "failed")
    play.later(5)
    assert play.run()["state"] == "SUCCESS"
    assert [task["attempt"] for task in play.step_tasks("a")] == [2, 2]


def test_a_shorter_limit_is_for_what_is_leased_from_then_on(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 2, "maxTaskCount": 1, "timeoutSeconds": 600})
    play.submit()
    [held] = play.take(1)
    assert held.timeout_seconds == 600
    change(play, timeoutSeconds=5)
    play.later(60)  # longer than the new limit, and seen: the attempt still has the time it was promised
    assert play.hands.beat([held]) == []
    play.hands.report([held])
    [second] = play.take(1)
    assert second.timeout_seconds == 5
    play.hands.report([second])
    assert play.run()["state"] == "SUCCESS"


def test_a_job_that_waits_and_its_next_run_have_what_was_asked(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 2}, concurrency=1)
    play.submit("t0")
    play.cloud.run_until(lambda: play.job("t0")["state"] == "QUEUED", 10)
    play.submit("t1")
    change(play, failedRetries=3, priority=5)
    play.run(trigger="t0")
    play.cloud.run_until(lambda: play.job()["state"] == "QUEUED", 10)
    assert (play.row(0).spec["failedRetries"], play.row(0).priority) == (3, 5)
    assert play.run(fail_shards(1))["state"] == "FAILED"
    assert play.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    play.cloud.run_until(lambda: len(play.job()["steps"]) == 1, 10)
    assert play.row(0).spec["failedRetries"] == 3
    assert play.run()["state"] == "SUCCESS"


def test_what_was_asked_of_all_goes_before_what_one_step_was_given(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    change(play, stepName="b", failedRetries=1)
    change(play, failedRetries=2)
    change(play, stepName="a", failedRetries=3)
    play.cloud.run_until(lambda: "a" in play.states(), 10)
    assert [play.row(index).spec["failedRetries"] for index in (0, 1)] == [3, 2]


def test_nonsense_changes_nothing(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    assert change(play, 422)["code"] == "invalid-request"
    assert change(play, 422, failedRetries=-1)["faults"][0]["pointer"] == "/failedRetries"
    missing = change(play, 422, workerGroups=["default", "nope"])
    assert missing["faults"][0]["pointer"] == "/workerGroups/1"
    assert change(play, 404, stepName="nope", priority=1)["code"] == "step-not-found"
    play.run()
    assert change(play, 409, priority=3)["code"] == "job-ended"


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("call", range(4))
def test_a_change_that_was_broken_off_is_finished_by_the_tick(
    play: Play, faults: Faults, call: int, how: How
) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    play.cloud.run_until(lambda: play.states() == {"a": "READY", "b": "WAITING"}, 10)
    job = play.mill.jobs.find("play", "t1")
    assert job
    faults.fail("dynamodb", "UpdateItem", how=how, nth=call + 1)
    with suppress(ClientError, EndpointConnectionError, ReadTimeoutError):
        change_module.change(play.mill, job, {"failed_retries": 2}, ME, play.hands.clock())
    faults.relent()
    play.tick(2)
    changed = play.mill.jobs.find("play", "t1")
    assert changed
    assert not changed.unapplied
    assert (
        play.row(0).spec["failedRetries"]
        == play.row(1).spec["failedRetries"]
        == (2 if changed.changes else 0)
    )
    play.later(120)
    assert play.run()["state"] == "SUCCESS"
