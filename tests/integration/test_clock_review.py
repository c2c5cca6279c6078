"""What a hostile review of schedules, dependencies and backfills found, each as it should be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine import definitions, downstream
from shardmill.engine.errors import Busy, DefinitionInUse, DefinitionNotFound, PreconditionFailed
from shardmill.engine.jobs import plan
from shardmill.engine.jobs.dependencies import runs
from shardmill.engine.schedules import due, fire, manage
from shardmill.model.actor import Actor
from shardmill.store.jobs import Jobs
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.schedule_clock import ScheduleClock, ms

A = {"stepName": "a"}
ME = Actor("me")


def define(schedules: ScheduleClock, name: str, *parents: Any, **job: Any) -> None:
    schedules.runner.define(A, name=name, dependencies=list(parents), **job)


def finish(schedules: ScheduleClock, name: str, trigger: str = "t1", **request: Any) -> None:
    schedules.runner.submit(trigger, name, **request)
    schedules.runner.run(trigger=trigger, name=name)
    schedules.runner.cloud.tell_dependency()


def row(schedules: ScheduleClock, name: str, trigger: str) -> JobRow:
    found = schedules.mill.jobs.find(name, trigger)
    assert found is not None
    return found


def expected(schedules: ScheduleClock, name: str, trigger: str) -> list[int]:
    return [run.time or 0 for each in runs(schedules.mill, row(schedules, name, trigger)) for run in each]


def test_what_one_schedule_missed_is_not_missed_by_others_nor_by_hand(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    define(schedules, "daily", {"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}})
    schedules.save("2026-01-01 00:00", "parent", "a", cron="0 * * * *", catchUp="none")
    schedules.tick("2026-01-01 12:10")
    schedules.save("2026-01-01 12:10", "parent", "b", cron="30 12 * * *")
    schedules.runner.submit("c", "child", dataTime="2026-01-01T06:17:00Z")
    assert row(schedules, "child", "c").unmet
    schedules.runner.submit("d", "daily", dataTime="2026-01-01T00:00:00Z")
    assert ms("2026-01-01 12:30") in expected(schedules, "daily", "d")
    assert ms("2026-01-01 06:00") not in expected(schedules, "daily", "d")


def test_skips_are_remembered_longer_than_the_history(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "hour", "from": 0, "to": 0}})
    schedules.save("2026-01-01 00:00", "parent", everySeconds=20, overlap="skip", catchUp="all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire, "MOST_HISTORY", 3)
        for _ in range(3):
            schedules.tick("2026-01-01 00:15")
    assert len(schedules.history("parent")) == 3
    schedules.runner.submit("c", "child", dataTime="2026-01-01T00:00:00Z")
    early = [time for time in expected(schedules, "child", "c") if time <= ms("2026-01-01 00:15")]
    assert early == [ms("2026-01-01 00:00"), ms("2026-01-01 00:00:20")]


def test_two_schedules_of_one_instant_are_two_runs(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}})
    for name in ("eu", "us"):
        schedules.save("2026-01-01 00:00", "parent", name, cron="0 3 * * *")
    schedules.tick("2026-01-01 03:00")
    schedules.runner.submit("c", "child", dataTime="2026-01-01T00:00:00Z")
    assert expected(schedules, "child", "c") == [ms("2026-01-01 03:00")] * 2


def test_a_replacement_that_was_killed_before_its_turn_leaves_its_victim_to_the_next(
    schedules: ScheduleClock,
) -> None:
    define(schedules, "parent")
    define(schedules, "play", "parent")
    schedules.save("2026-01-01 00:00", cron="0 1-3 * * *", overlap="replace")
    finish(schedules, "parent", "p1", dataTime="2026-01-01T01:00:00Z")
    finish(schedules, "parent", "p3", dataTime="2026-01-01T03:00:00Z")
    for hour in (1, 2, 3):
        schedules.tick(f"2026-01-01 0{hour}:00")
    schedules.runner.cloud.run_until(
        lambda: [schedules.state(f"2026-01-01 0{h}:00") for h in (1, 2, 3)] == ["KILLED", "KILLED", "QUEUED"]
    )


def test_a_queue_keeps_its_order_whatever_is_planned_first(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "play")
    started: list[tuple[str, int]] = []
    with monkeypatch.context() as patch:
        machines = type(schedules.mill.machines)
        patch.setattr(machines, "start_job", lambda _, job_id, run: started.append((job_id, run)))
        schedules.save("2026-01-01 00:00", cron="0 1-3 * * *", overlap="queue", catchUp="all")
        schedules.tick("2026-01-01 03:00")
    for job_id, run in reversed(started):
        plan.plan(schedules.mill, job_id, run, ms("2026-01-01 03:01"))
    assert [schedules.state(f"2026-01-01 0{hour}:00") for hour in (1, 2, 3)] == [
        "QUEUED",
        "WAITING",
        "WAITING",
    ]
    schedules.runner.cloud.http("POST", "/v1/jobs/play/20260101T020000Z-s:kill")
    assert schedules.state("2026-01-01 03:00") == "WAITING"
    assert schedules.end("2026-01-01 01:00")["state"] == "SUCCESS"
    assert schedules.end("2026-01-01 03:00")["state"] == "SUCCESS"


def test_a_queue_waits_for_a_job_of_before_it_was_one(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="0 * * * *")
    schedules.tick("2026-01-01 01:00")
    schedules.save("2026-01-01 01:30", cron="0 * * * *", overlap="queue")
    schedules.tick("2026-01-01 02:00")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 02:00") == "WAITING")
    schedules.end("2026-01-01 01:00")
    assert schedules.end("2026-01-01 02:00")["state"] == "SUCCESS"


def test_one_child_that_cannot_be_told_does_not_keep_the_others_from_it(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "parent")
    for name in ("a-child", "b-child"):
        define(schedules, name, "parent")
    schedules.runner.submit("t1", "parent", dataTime="2026-01-05T00:00:00Z")
    schedules.runner.run(trigger="t1", name="parent")
    real = Jobs.create
    with monkeypatch.context() as patch:
        patch.setattr(
            Jobs, "create", lambda self, job, **o: job.job_name != "a-child" and real(self, job, **o)
        )
        schedules.runner.cloud.tell_dependency()
    children = [schedules.mill.jobs.find(name, "20260105T000000Z") for name in ("a-child", "b-child")]
    assert [child is not None for child in children] == [False, True]
    assert row(schedules, "parent", "t1").heirs_pending
    schedules.runner.tick(minutes=5)
    assert schedules.mill.jobs.find("a-child", "20260105T000000Z") is not None


def test_a_child_that_cannot_run_is_told_of(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent", workerGroup="nowhere")
    finish(schedules, "parent", dataTime="2026-01-05T00:00:00Z")
    [told] = [
        event for event in schedules.runner.cloud.published() if event["detail-type"] == "Child Refused"
    ]
    assert (told["detail"]["jobName"], "nowhere" in told["detail"]["reason"]) == ("child", True)


def test_a_child_is_told_from_others_of_its_second_and_of_its_trigger(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    for number, time in enumerate(("00:00:00Z", "00:00:00.250Z")):
        finish(schedules, "parent", f"t{number}", dataTime=f"2026-01-05T{time}")
    assert row(schedules, "child", "20260105T000000Z-250").moment % 1000 == 250
    schedules.runner.submit("20260106T000000Z", "child", dataTime="2026-01-01T00:00:00Z")
    finish(schedules, "parent", "t9", dataTime="2026-01-06T00:00:00Z")
    assert (
        len(list(schedules.mill.runs.between("child", ms("2026-01-06 00:00"), ms("2026-01-06 00:01")))) == 1
    )


def test_a_job_that_waits_for_itself_is_not_started_by_itself(schedules: ScheduleClock) -> None:
    define(
        schedules,
        "roll",
        {"jobName": "roll", "window": {"unit": "day", "from": -1, "to": -1}},
        expiredSeconds=1,
    )
    define(schedules, "other")
    finish(schedules, "other", dataTime="2026-01-05T00:00:00Z")
    schedules.runner.submit("t1", "roll", dataTime="2026-01-05T00:00:00Z")
    downstream.notify_dependents(
        schedules.mill, row(schedules, "other", "t1"), schedules.runner.worker.clock(), new_id
    )
    assert len(schedules.runner.cloud.http("GET", "/v1/jobs?jobName=roll").json["items"]) == 1


def test_a_schedule_made_again_is_not_the_one_that_was_deleted(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="0 1 * * *")
    old = schedules.mill.schedules.get("play", "s")
    assert old is not None
    manage.delete(schedules.mill, "play", "s", ms("2026-01-01 00:10"))
    assert schedules.runner.cloud.http("GET", "/v1/schedules/play/s").status == 404
    assert schedules.runner.cloud.http("GET", "/v1/schedules").json["items"] == []
    schedules.save("2026-01-01 00:20", cron="30 5 * * *")
    assert not schedules.mill.schedules.change(old, old)
    with pytest.raises(PreconditionFailed):
        manage.save(schedules.mill, "play", "s", {"cron": "@daily"}, ME, now=0, expected=1)
    assert schedules.next() == "2026-01-01 05:30"


def test_a_time_that_is_due_survives_a_change_of_the_schedule(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="0 1 * * *", endDate="2026-02-01")
    schedules.save("2026-01-01 01:00:20", cron="0 1 * * *", endDate="2026-03-01")
    schedules.tick("2026-01-01 01:00:40")
    assert schedules.outcomes() == [("2026-01-01 01:00", "started")]


def test_a_queue_that_is_away_keeps_nobody_from_the_tick(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    for number in range(3):
        schedules.save("2026-01-01 00:00", schedule_id=f"s{number}", cron="0 1 * * *")
    with pytest.MonkeyPatch.context() as patch, Faults() as faults:
        patch.setattr(due, "CHUNK", 1)
        faults.fail("sqs", "SendMessageBatch", how="before", times=9)
        told = schedules.tick("2026-01-01 01:00")
        assert (len(schedules.jobs()), told["failed"]) == (1, 1)
        faults.relent()
        for minute in (1, 2):
            schedules.tick(f"2026-01-01 01:0{minute}")
            schedules.runner.cloud.serve_fire_queue()
    assert len(schedules.jobs()) == 3


def test_large_schedules_are_refused_and_histories_stay_small(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    large = {"cron": "* * * * *", "params": {"x": "y" * 70_000}}
    answer = schedules.runner.cloud.http("PUT", "/v1/schedules/play/s", large)
    assert (answer.status, answer.json["code"]) == (413, "schedule-too-large")
    schedules.runner.define({"stepName": "a", "workerGroup": "w" * 60})
    schedules.save("2026-01-01 00:00", cron="* * * * *", catchUp="all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire, "MOST_HISTORY_BYTES", 2_000)
        schedules.tick("2026-01-01 00:20")
    assert 1 < len(schedules.history()) < 20


def test_triggers_that_are_too_long_stay_different(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    for end in ("x", "y"):
        schedules.save("2026-01-01 00:00", schedule_id="n" * 60 + end, cron="0 1 * * *")
    schedules.tick("2026-01-01 01:00")
    assert schedules.jobs() == ["2026-01-01 01:00"] * 2


@pytest.mark.parametrize("form", ["%Y%m%e", "%k", "%Y%m%d%z", "%Y-%Z", "%H:%M"])
def test_formats_that_give_no_trigger_on_some_day_are_refused(schedules: ScheduleClock, form: str) -> None:
    define(schedules, "play")
    wish = {"cron": "@daily", "triggerFormat": form, "timezone": "Asia/Dubai"}
    assert (
        schedules.runner.cloud.http("PUT", "/v1/schedules/play/s", wish).json["code"] == "bad-trigger-format"
    )


def test_a_backfill_of_times_that_share_a_trigger_comes_to_its_end(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-02-01 00:00", cron="0 * * * *", triggerFormat="%Y%m%d")
    wish = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z", "parallel": 3}
    assert schedules.runner.cloud.http("POST", "/v1/schedules/play/s:backfill", wish).status == 202
    path = "/v1/schedules/play/s/backfills/1"

    def work() -> None:
        schedules.runner.work()
        schedules.runner.cloud.tell_dependency()

    schedules.runner.cloud.run_until(
        lambda: schedules.runner.cloud.http("GET", path).json["state"] == "DONE", 30, meanwhile=work
    )
    shown = schedules.runner.cloud.http("GET", path).json
    assert shown["success"] + shown["skipped"] == 3


def test_dates_of_a_backfill_are_of_the_schedule_s_zone(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-02-01 00:00", cron="30 0 * * *", timezone="Europe/Berlin")
    for number, wish in enumerate(({"from": "2026-01-01", "to": "2026-01-02"}, {"times": ["2026-01-01"]}), 1):
        answer = schedules.runner.cloud.http("POST", "/v1/schedules/play/s:backfill", wish)
        assert answer.json["total"] == 1, answer
        kept = schedules.mill.schedules.backfill("play", "s", number)
        assert kept is not None
        assert kept.times == [ms("2025-12-31 23:30")]


def test_a_definition_is_not_deleted_under_a_schedule_or_a_child(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "play")
    define(schedules, "parent")
    real = definitions._check_unused

    def meanwhile(mill: Any, name: str) -> None:
        real(mill, name)
        if name == "play":
            schedules.save("2026-01-01 00:00", cron="@daily")
        else:
            define(schedules, "child", "parent")

    monkeypatch.setattr(definitions, "_check_unused", meanwhile)
    for name in ("play", "parent"):
        with pytest.raises(DefinitionInUse):
            definitions.delete(schedules.mill, name)
    monkeypatch.undo()
    manage.delete(schedules.mill, "play", "s", ms("2026-01-01 00:00"))
    definitions.delete(schedules.mill, "play")
    with pytest.raises(DefinitionNotFound):
        schedules.save("2026-01-01 00:00", cron="@daily")


def test_firing_by_hand_many_times_at_once_with_skip_starts_one(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="0 0 1 1 *", overlap="skip")

    def hand(day: int) -> int:
        wish = {"dataTime": f"2026-05-0{day}T00:00:00Z"}
        return schedules.runner.cloud.http("POST", "/v1/schedules/play/s:fire", wish).status

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(hand, range(1, 5))) == [202, 409, 409, 409]


def test_a_table_that_is_contended_says_busy(schedules: ScheduleClock, monkeypatch: Any) -> None:
    from shardmill.store.table import Contended, Table

    define(schedules, "play")

    def contended(*_: object, **__: object) -> None:
        raise Contended

    monkeypatch.setattr(Table, "transact", contended)
    answer = schedules.runner.cloud.http("PUT", "/v1/schedules/play/s", {"cron": "@daily"})
    assert (answer.status, answer.json["code"]) == (503, Busy.code)


def test_the_edge_of_time_is_refused_not_a_defect(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="@daily", timezone="Asia/Tokyo", triggerFormat="%Y%m%d")
    wish = {"dataTime": "9999-12-31T23:59:59Z"}
    answer = schedules.runner.cloud.http("POST", "/v1/schedules/play/s:fire", wish)
    assert (answer.status, answer.json["code"]) == (422, "bad-time")


def test_a_lost_start_of_a_replacement_is_made_good(schedules: ScheduleClock) -> None:
    define(schedules, "play")
    schedules.save("2026-01-01 00:00", cron="0 1,2 * * *", overlap="replace")
    schedules.tick("2026-01-01 01:00")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 01:00") == "QUEUED")
    with Faults() as faults:
        faults.fail("stepfunctions", "StartExecution", how="before")
        assert schedules.tick("2026-01-01 02:00")["fired"] == 1
    schedules.tick("2026-01-01 02:05")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 01:00") == "KILLED")
