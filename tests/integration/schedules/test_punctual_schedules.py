"""Firings at their time: times before the next tick are handed over to a queue; the row decides."""

from __future__ import annotations

import json

import pytest

from shardmill.aws import clock
from shardmill.engine import definitions
from shardmill.engine.schedules import manage
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock, ms


@pytest.fixture
def schedules(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> ScheduleClock:
    """Jobs are created, but their executions are not started."""
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    monkeypatch.setattr(type(schedules.mill.machines), "start_job", lambda *_: None)
    return schedules


def started(schedules: ScheduleClock) -> list[tuple[str, int]]:
    """The time of each Job that was started, and how many milliseconds later it was created."""
    jobs = schedules.mill.jobs
    found = []
    for entry in schedules.history():
        if entry["outcome"] == "started":
            job = jobs.get(entry["jobId"])
            assert job is not None
            found.append((entry["time"][11:19], job.create_time - ms(entry["time"].removesuffix("Z"))))
    return found


def seconds(first: int, last: int, step: int) -> list[tuple[str, int]]:
    return [(f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}", 0) for at in range(first, last + 1, step)]


def message(time: str) -> str:
    """The message that fires the schedule at a time."""
    return json.dumps({"now": ms(time), "ahead": True, "schedules": [["orders", "s"]]})


def test_a_job_starts_every_five_seconds(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00:17", everySeconds=5)
    schedules.run("2026-01-01 00:00:37", "2026-01-01 00:03:02")
    assert started(schedules) == seconds(20, 180, 5)


def test_a_job_starts_every_second(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00:00", everySeconds=1, catchUp="none")
    schedules.run("2026-01-01 00:00:30", "2026-01-01 00:01:10")
    assert started(schedules) == seconds(1, 70, 1)


@pytest.mark.parametrize("second", [0, 1, 37, 59])
@pytest.mark.parametrize("cron", ["5 * * * *", "quartz(0 5 * * * ?)", "cron(5 * * * ? *)"])
def test_a_cron_time_fires_at_its_second_whenever_the_tick_comes(
    schedules: ScheduleClock, cron: str, second: int
) -> None:
    schedules.save("2026-01-01 00:00:00", cron=cron)
    schedules.run(f"2026-01-01 00:01:{second:02}", "2026-01-01 00:07")
    assert started(schedules) == [("00:05:00", 0)]


def test_irregular_ticks_do_not_delay_firings(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="* * * * *")
    for now in ("00:00:05", "00:01:29", "00:02:05", "00:03:34", "00:04:10"):
        schedules.serve_fire_queue(f"2026-01-01 {now}")
        schedules.tick(f"2026-01-01 {now}")
    assert started(schedules) == seconds(60, 240, 60)


def test_messages_do_not_multiply(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=5)
    schedules.run("2026-01-01 00:00:00", "2026-01-01 00:04:58")
    before = len(schedules.handed_over())
    assert before <= 2
    schedules.tick("2026-01-01 00:04:59")
    assert schedules.serve_fire_queue("2026-01-01 00:05:59") <= 12 + before + 1


def test_schedules_of_the_same_second_share_messages(schedules: ScheduleClock) -> None:
    for number in range(30):
        schedules.save("2026-01-01 00:00", schedule_id=f"s{number:02}", cron="10 * * * *")
    assert schedules.tick("2026-01-01 00:09:00")["handed"] == 30
    assert len(schedules.handed_over()) == 2
    schedules.serve_fire_queue("2026-01-01 00:10")
    assert schedules.jobs() == ["2026-01-01 00:10"] * 30


def test_a_lost_message_makes_a_firing_late(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="2 * * * *")
    schedules.tick("2026-01-01 00:01:20")
    assert schedules.lose_messages() == 1
    schedules.tick("2026-01-01 00:02:20")
    assert started(schedules) == [("00:02:00", 20_000)]


def test_a_lost_message_of_a_frequent_schedule_is_replaced(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=5, catchUp="none")
    schedules.run("2026-01-01 00:00:02", "2026-01-01 00:00:30")
    schedules.lose_messages()
    schedules.run("2026-01-01 00:01:02", "2026-01-01 00:01:20")
    assert [time for time, _ in started(schedules)] == [time for time, _ in seconds(5, 80, 5)]
    assert [late for _, late in started(schedules)][-4:] == [0] * 4


@pytest.mark.parametrize("stopped", ["definition", "schedule"])
def test_a_schedule_fires_at_its_times_as_soon_as_it_is_active_again(
    schedules: ScheduleClock, stopped: str
) -> None:
    """Although its next time has long passed: the next tick would come half a minute later."""
    schedules.save("2026-01-01 00:00", everySeconds=5)
    schedules.run("2026-01-01 00:00:02", "2026-01-01 00:00:20")
    if stopped == "definition":
        definitions.suspend(schedules.mill, "orders", Actor("planner"), "", ms("2026-01-01 00:00:21"))
    else:
        schedules.save("2026-01-01 00:00:21", everySeconds=5, status=0)
    schedules.run("2026-01-01 00:01:42", "2026-01-01 00:09:45")
    assert len(started(schedules)) == 4
    if stopped == "definition":
        manage.resume_definition(schedules.mill, "orders", ms("2026-01-01 00:10:11"))
    else:
        schedules.save("2026-01-01 00:10:11", everySeconds=5, status=1)
    schedules.serve_fire_queue("2026-01-01 00:10:41")
    assert started(schedules)[-6:] == seconds(615, 640, 5)
    before = len(started(schedules))
    schedules.tick("2026-01-01 00:10:42")
    schedules.serve_fire_queue("2026-01-01 00:10:44")
    assert len(started(schedules)) == before


def test_a_definition_is_resumed_although_its_schedules_cannot_be_handed_over(
    schedules: ScheduleClock, faults: Faults
) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=30)
    definitions.suspend(schedules.mill, "orders", Actor("planner"), "", ms("2026-01-01 00:00:01"))
    faults.fail("sqs", "SendMessageBatch", how="before", times=9)
    assert not manage.resume_definition(schedules.mill, "orders", ms("2026-01-01 00:00:40")).suspended
    faults.clear_faults()
    schedules.tick("2026-01-01 00:01")
    assert [time for time, _ in started(schedules)] == ["00:00:30", "00:01:00"]


def test_repeated_and_late_messages_start_nothing_twice(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=20)
    schedules.tick("2026-01-01 00:00:01")
    queue = schedules.mill.settings.fire_queue
    bodies = [message(f"2026-01-01 00:00:{second}") for second in (20, 20, 40, 20)]
    schedules.mill.queues.send_texts(queue, bodies * 3)
    schedules.serve_fire_queue("2026-01-01 00:01:01")
    schedules.mill.queues.send_texts(queue, bodies)
    schedules.serve_fire_queue("2026-01-01 00:01:01")
    assert started(schedules) == seconds(20, 60, 20)


def _change(schedules: ScheduleClock, how: str) -> None:
    if how == "off":
        schedules.save("2026-01-01 00:01:30", cron="2 * * * *", status=0)
    elif how == "deleted":
        manage.delete(schedules.mill, "orders", "s", ms("2026-01-01 00:01:30"))
    elif how == "suspended":
        schedules.runner.post("/v1/definitions/orders:suspend")
    else:
        schedules.save("2026-01-01 00:01:30", cron="30 * * * *")


@pytest.mark.parametrize("how", ["off", "deleted", "suspended", "other times"])
def test_a_schedule_that_changes_after_the_hand_over_does_not_fire(
    schedules: ScheduleClock, how: str
) -> None:
    schedules.save("2026-01-01 00:00", cron="2 * * * *")
    schedules.tick("2026-01-01 00:01:20")
    _change(schedules, how)
    assert schedules.serve_fire_queue("2026-01-01 00:03") == 1
    assert schedules.jobs() == []


@pytest.mark.parametrize(("catch_up", "outcome"), [("none", "missed"), ("latest", "started")])
def test_a_message_that_is_minutes_late_leaves_the_decision_to_the_tick(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch, catch_up: str, outcome: str
) -> None:
    schedules.save("2026-01-01 00:00", cron="2 * * * *", catchUp=catch_up)
    schedules.tick("2026-01-01 00:01:20")
    body = message("2026-01-01 00:02")
    monkeypatch.setattr(clock, "now_ms", lambda: ms("2026-01-01 00:10"))
    schedules.runner.cloud.invoke("fire", {"Records": [{"messageId": "m", "body": body}]})
    assert schedules.outcomes() == []
    schedules.tick("2026-01-01 00:10:20")
    assert schedules.outcomes() == [("2026-01-01 00:02", outcome)]


def test_a_time_that_ticks_failed_to_fire_is_not_missed_because_of_a_handed_over_time(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.save("2026-01-01 00:00", cron="1,6 * * * *", catchUp="none")
    with monkeypatch.context() as patch:
        patch.setattr(type(schedules.mill.jobs), "create", lambda *_, **__: 1 / 0)
        schedules.run("2026-01-01 00:00:30", "2026-01-01 00:05:30")
    schedules.run("2026-01-01 00:06:00", "2026-01-01 00:06:10")
    assert [outcome for _, outcome in schedules.outcomes()] == ["started", "started"]


def test_a_schedule_is_saved_although_it_cannot_be_handed_over(
    schedules: ScheduleClock, faults: Faults
) -> None:
    faults.fail("sqs", "SendMessageBatch", how="before", times=9)
    schedules.save("2026-01-01 00:00", everySeconds=30)
    faults.clear_faults()
    schedules.tick("2026-01-01 00:00:40")
    assert started(schedules) == [("00:00:30", 10_000)]


def test_a_schedule_that_is_due_later_sends_nothing_when_saved(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 1 * * *")
    assert schedules.handed_over() == []
    assert schedules.tick("2026-01-01 00:58:29")["handed"] == 0
    assert schedules.tick("2026-01-01 00:58:30")["handed"] == 1


def test_the_lag_of_a_late_firing_is_reported(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="2 * * * *")
    assert schedules.tick("2026-01-01 00:02:20")["lag"] == 20_000


def test_the_functions_publish_the_lag(schedules: ScheduleClock, capsys: pytest.CaptureFixture[str]) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=30)
    schedules.serve_fire_queue("2026-01-01 00:00:30")
    published = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "FiringLag" in line]
    assert [each["FiringLag"] for each in published] == [[0.0]]


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_a_punctual_job_that_still_runs_is_compared_at_once(schedules: ScheduleClock, overlap: str) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=30, overlap=overlap)
    schedules.run("2026-01-01 00:00:10", "2026-01-01 00:01:00")
    second = "skipped" if overlap == "skip" else "started"
    assert [outcome for _, outcome in schedules.outcomes()] == ["started", second]
