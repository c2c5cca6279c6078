"""What a hostile look at control and values found, each by its name."""

from __future__ import annotations

from integration.test_holds import post
from integration.test_values import contents, run, shell
from support.hands import Hands
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


def test_a_command_that_cannot_be_named_fails_its_task_and_breaks_no_worker(play: Play) -> None:
    play.define(
        shell("a", "x"),
        {"stepName": "b", "dependentStep": "a", "command": {"name": "{{ steps.a.output.program }}"}},
    )
    play.submit()
    play.hands = Hands(play.mill, "limited", ["default"], ["shell"])
    faults = []

    def work() -> None:
        for lease in play.hands.take():
            faults.append(lease.fault)
            play.hands.report([lease], "failed-permanent" if lease.fault else "success", output={})

    play.cloud.run_until(play.ended, 30, meanwhile=work)
    assert faults[0] is None
    assert "has no 'program'" in faults[1]
    assert play.states() == {"a": "SUCCESS", "b": "FAILED"}


def test_a_recomputed_value_is_read_again_by_a_later_phase(play: Play) -> None:
    play.define(shell("a", "a"), shell("b", "b", phase=1), shell("c", "c {{ steps.a.output }}", phase=1))
    play.submit()
    run(play, {"a": "one"})
    post(play, "/v1/jobs/play/t1:recompute", {"stepName": "a"})
    play.leased = []
    assert run(play, {"a": "two"})["state"] == "SUCCESS"
    assert (contents(play, "b"), contents(play, "c")) == ([], ["c two"])


def test_a_condition_on_what_failed_is_told_anew_by_a_rerun(play: Play) -> None:
    play.define(shell("a", "a"), shell("b", "b", phase=1, when="{{ steps.a.output == 'good' }}"))
    play.submit()
    assert play.run(fail_shards(0, step="a"))["state"] == "FAILED"
    assert play.states()["b"] == "SKIPPED"
    post(play, "/v1/jobs/play/t1:rerun")
    assert run(play, {"a": "good"})["state"] == "SUCCESS"
    assert play.states()["b"] == "SUCCESS"


def test_items_are_kept_once(play: Play) -> None:
    play.define(
        shell("list", "ls", sharding=4),
        shell("each", "work {{ item | length }}", "list", items="{{ steps.list.output }}"),
    )
    play.submit()
    assert run(play, {"list": "x" * 40_000})["state"] == "SUCCESS"
    assert contents(play, "each") == ["work 40000"] * 4
    assert "steps" not in play.row(1).context


def test_values_that_do_not_fit_beside_a_large_step_are_said(play: Play) -> None:
    content = f"true # {'y' * 250_000} {{{{ steps.list.output }}}}"
    play.define(shell("list", "ls", sharding=3), shell("large", content, "list"))
    play.submit()
    assert run(play, {"list": "x" * 60_000})["state"] == "FAILED"
    assert "larger data belongs into files" in play.job()["steps"][1]["notes"]
