"""What a hostile look at control and values found, each by its name."""

from __future__ import annotations

from integration.test_holds import post
from support.play import Play, fail_shards


def test_a_rerun_reaches_tasks_beyond_the_window_without_the_tick(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2})
    play.submit()
    assert play.run(fail_shards(7))["state"] == "FAILED"
    post(play, "/v1/jobs/play/t1:rerun")
    assert play.run()["state"] == "SUCCESS"
    assert [task["attempt"] for task in play.step_tasks("a")] == [1] * 7 + [2, 1, 1]


def test_a_larger_window_is_exact_though_tasks_ended_out_of_line(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 40, "maxTaskCount": 2})
    play.submit()
    first, long = sorted(play.take(2), key=lambda lease: lease.sharding.index)
    play.hands.report([first])
    for _ in range(10):
        play.hands.report(play.take(1))
    post(play, "/v1/jobs/play/t1:change", {"maxTaskCount": 3})
    play.later(6)
    held = [lease for _ in range(10) for lease in play.hands.take()]
    assert len(held) == 2
    play.hands.report([long, *held])
    assert play.run()["state"] == "SUCCESS"


def test_what_runs_beyond_a_smaller_window_is_not_replaced(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 20, "maxTaskCount": 6})
    play.submit()
    held = sorted(play.take(6), key=lambda lease: lease.sharding.index)
    post(play, "/v1/jobs/play/t1:change", {"maxTaskCount": 2})
    play.later(6)
    play.hands.report(held[2:])
    assert [lease for _ in range(10) for lease in play.hands.take()] == []
    play.hands.report(held[:2])
    assert len(play.take(2)) == 2
    assert [lease for _ in range(10) for lease in play.hands.take()] == []


def test_a_waiting_task_that_is_killed_brings_no_other_out_of_turn(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2, "toleratedFailures": 10})
    play.submit()
    held = play.take(2)
    for index in (4, 5, 6):
        post(play, "/v1/jobs/play/t1:kill", {"stepName": "a", "index": index})
    assert [lease for _ in range(10) for lease in play.hands.take()] == []
    play.hands.report(held)
    play.run()
    assert play.step("a")["counts"] == {"SUCCESS": 7, "KILLED": 3}
