"""What a hostile look at control and values found, each by its name."""

from __future__ import annotations

from typing import Any

import pytest

from integration.test_holds import post
from integration.test_values import contents, run, shell
from integration.test_workers_api import register
from shardmill.engine.running import changes
from support.diary import Diary
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


def test_of_two_changes_at_once_the_later_word_counts(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3})
    play.submit()
    play.cloud.run_until(lambda: play.states() == {"a": "READY"}, 10)
    job = play.mill.jobs.find("play", "t1")
    assert job
    wish = {"": {"failed_retries": 1}}
    told: dict[str, Any] = {"priority": 1, "groups": job.groups, "now": 1, "actor": "me", "reason": ""}
    slow = play.mill.jobs.change(job, changes=wish, **told)
    assert slow
    post(play, "/v1/jobs/play/t1:change", {"failedRetries": 2})
    changes.apply_changes(play.mill, slow, play.hands.clock())
    assert play.row(0).spec["failedRetries"] == 2


def test_a_retry_after_a_change_does_not_wait_for_the_lease(play: Play) -> None:
    play.define({"stepName": "a", "failedRetries": 1, "failedInterval": 0})
    play.submit()
    held = play.take(1)
    post(play, "/v1/jobs/play/t1:change", {"priority": 20})
    play.later(3)
    assert play.hands.take() == []  # its new message is hidden for as long as the lease holds
    play.hands.report(held, "failed")
    [again] = play.take(1)
    assert again.attempt == 2


def test_a_giant_that_moves_is_known_where_it_is(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/other", {})
    play.define({"stepName": "a", "sharding": 200, "maxTaskCount": 3})
    play.submit()
    play.cloud.run_until(lambda: play.states() == {"a": "READY"}, 10)
    assert _giants(play, "default") == 0
    post(play, "/v1/jobs/play/t1:change", {"maxTaskCount": 150})
    assert _giants(play, "default") == 1
    post(play, "/v1/jobs/play/t1:suspend")
    post(play, "/v1/jobs/play/t1:group", {"workerGroups": ["other"]})
    assert (_giants(play, "default"), _giants(play, "other")) == (0, 1)
    post(play, "/v1/jobs/play/t1:kill")
    assert _giants(play, "other") == 0


def _giants(play: Play, name: str) -> int:
    group = play.mill.groups.get(name)
    assert group
    return len(group.giants)


def test_a_group_that_all_steps_have_left_can_be_deleted(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/old", {})
    play.define({"stepName": "a", "sharding": 2, "workerGroup": "old", "failedRetries": 1})
    play.submit()
    hands, play.hands = play.hands, Hands(play.mill, "old", ["old"])
    held = play.take(1)
    post(play, "/v1/jobs/play/t1:group", {"workerGroups": ["default"]})
    assert play.cloud.http("DELETE", "/v1/groups/old").status == 204
    assert [one.status for one in play.hands.report(held, "failed")] == ["ok"]
    play.hands = hands
    play.later(5)
    assert play.run()["state"] == "SUCCESS"


def test_a_change_of_a_step_without_a_name_is_refused(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    refused = post(play, "/v1/jobs/play/t1:change", {"stepName": "", "priority": 3}, status=422)
    assert refused["faults"][0]["pointer"] == "/stepName"


def test_a_backfill_says_that_it_waits_only_while_it_does(play: Play) -> None:
    play.define({"stepName": "a"})
    diary = Diary(play)
    diary.save("2026-01-01 00:00", cron="0 * * * *")
    post(play, "/v1/definitions/play:suspend")
    span = {"from": "2025-12-01T00:00:00Z", "to": "2025-12-01T02:00:00Z"}
    begun = post(play, "/v1/schedules/play/s:backfill", span, status=202)
    assert (begun["state"], begun["notes"]) == ("RUNNING", "waits until its definition is resumed")
    post(play, "/v1/definitions/play:resume")
    play.tick(2)
    [going] = play.cloud.http("GET", "/v1/schedules/play/s/backfills").json["items"]
    assert (going["running"], going["notes"]) == (1, "")


def test_an_older_version_is_as_suspended_as_its_definition(play: Play) -> None:
    play.define({"stepName": "a"})
    play.define({"stepName": "b"})
    post(play, "/v1/definitions/play:suspend", {"reason": "bad"})
    assert play.cloud.http("GET", "/v1/definitions/play?version=1").json["suspended"].endswith(": bad")


def test_a_suspended_group_beside_one_without_workers_is_told_truly(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/empty", {})
    play.define({"stepName": "a", "workerGroups": ["default", "empty"]})
    post(play, "/v1/groups/default:suspend", {"reason": "maintenance"})
    play.submit()
    play.cloud.run_until(lambda: play.states() == {"a": "READY"}, 10)
    [reason] = play.job()["waitingFor"]
    assert reason.startswith("step a: group empty has no live worker; group default was suspended by")
    assert "silent" not in reason


def test_a_worker_hears_which_group_keeps_it_waiting(play: Play) -> None:
    worker = register(play)
    beat = {"session": worker["session"]}
    post(play, "/v1/groups/default:suspend", {"reason": "maintenance"})
    told = post(play, f"/v1/workers/{worker['id']}:heartbeat", beat)
    assert "group default was suspended by" in told["notes"]
    assert "workers resume" not in told["notes"]
    post(play, "/v1/groups/default:resume")
    assert post(play, f"/v1/workers/{worker['id']}:heartbeat", beat)["notes"] is None


@pytest.mark.parametrize("end", [":kill", ":force"])
def test_a_suspended_job_that_was_ended_can_run_again(play: Play, end: str) -> None:
    play.define({"stepName": "a", "sharding": 2})
    play.submit()
    held = play.take(1)
    post(play, "/v1/jobs/play/t1:suspend", {"letFinish": True})
    post(play, f"/v1/jobs/play/t1{end}", {"state": "FAILED"} if end == ":force" else None)
    play.hands.report(held)
    post(play, "/v1/jobs/play/t1:rerun")
    assert play.run()["state"] == "SUCCESS"
    assert play.job()["run"] == 2


def test_everything_is_no_group_by_a_name(play: Play) -> None:
    post(play, "/v1/groups:suspend", status=204)
    for action in (":suspend", ":resume"):
        assert post(play, f"/v1/groups/*{action}", status=404)["code"] == "group-not-found"
    assert play.cloud.http("GET", "/v1/groups/*").status == 404
    assert play.cloud.http("DELETE", "/v1/groups/*?force=true").status == 404
