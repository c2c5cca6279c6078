"""Schedules with several times a minute, and firings that later invocations finish."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from shardmill.engine.schedules import due, fire
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock, at

MINUTES = [f"2026-01-01 00:0{minute}" for minute in range(1, 10)]


@pytest.fixture
def schedules(runner: JobRunner) -> ScheduleClock:
    runner.define({"stepName": "a"})
    return ScheduleClock(runner)


@pytest.fixture
def no_starts(monkeypatch: pytest.MonkeyPatch, schedules: ScheduleClock) -> None:
    """Create Jobs without starting their executions."""
    monkeypatch.setattr(type(schedules.mill.machines), "start_job", lambda *_: None)


def seconds_after_midnight(schedules: ScheduleClock) -> list[int]:
    """The times of all Jobs."""
    return [int((at(time) - at("2026-01-01 00:00")).total_seconds()) for time in schedules.jobs()]


@pytest.mark.usefixtures("no_starts")
@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
@pytest.mark.parametrize("every", [1, 2])
def test_punctual_ticks_fire_every_time_of_a_frequent_schedule(
    schedules: ScheduleClock, every: int, catch_up: str
) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=every, catchUp=catch_up)
    for minute in MINUTES[:2]:
        schedules.tick(minute)
        schedules.serve_fire_queue(minute)
    assert seconds_after_midnight(schedules) == list(range(every, 121, every))
    assert schedules.next() == f"2026-01-01 00:02:0{every}"


@pytest.mark.usefixtures("no_starts")
@pytest.mark.parametrize("catch_up", ["none", "latest"])
def test_times_that_ticks_met_are_fired_by_a_late_invocation(
    schedules: ScheduleClock, catch_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function `fire` gets its messages six minutes late; another schedule occupies the tick itself."""
    monkeypatch.setattr(due, "CHUNK", 1)
    schedules.save("2026-01-01 00:00", schedule_id="first", everySeconds=20, catchUp="all")
    schedules.save("2026-01-01 00:00", cron="1-3 * * * *", catchUp=catch_up)
    with monkeypatch.context() as patch:
        patch.setattr(fire, "MAX_TIMES_PER_VISIT", 1)  # `first` is always due longest
        for minute in MINUTES[:7]:
            schedules.tick(minute)
    schedules.serve_fire_queue(MINUTES[6])
    schedules.tick(MINUTES[7])
    assert schedules.outcomes() == [(minute, "started") for minute in MINUTES[:3]]


@pytest.mark.usefixtures("no_starts")
def test_a_failed_firing_is_repeated_after_many_minutes(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.save("2026-01-01 00:00", cron="1 * * * *", catchUp="none")
    with monkeypatch.context() as patch:
        patch.setattr(type(schedules.mill.jobs), "create", lambda *_, **__: 1 / 0)
        for minute in MINUTES[:6]:
            assert schedules.tick(minute)["notFired"] == 1
    schedules.tick(MINUTES[6])
    assert schedules.outcomes() == [(MINUTES[0], "started")]


@pytest.mark.usefixtures("no_starts")
def test_ticks_that_pause_miss_the_times_of_the_pause(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="* * * * *", catchUp="none")
    for minute in (MINUTES[0], MINUTES[1], MINUTES[6]):
        schedules.tick(minute)
    missed = ("2026-01-01 00:03 to 2026-01-01 00:04", "missed")
    started = [(MINUTES[at], "started") for at in (0, 1, 4, 5, 6)]
    assert schedules.outcomes() == [*started[:2], missed, *started[2:]]


@pytest.mark.usefixtures("no_starts")
@pytest.mark.parametrize("how", ["schedule off", "definition suspended"])
def test_times_of_an_inactive_schedule_are_missed_although_ticks_were_punctual(
    schedules: ScheduleClock, how: str
) -> None:
    times: dict[str, Any] = {"cron": "* * * * *", "catchUp": "none"}
    schedules.save("2026-01-01 00:00", schedule_id="other", everySeconds=60)  # keeps the ticks recorded
    schedules.save("2026-01-01 00:00", **times)
    schedules.tick(MINUTES[0])
    if how == "schedule off":
        schedules.save("2026-01-01 00:01:30", **times, status=0)
    else:
        schedules.runner.post("/v1/definitions/orders:suspend")
    for minute in MINUTES[1:6]:
        schedules.tick(minute)
    if how == "schedule off":
        schedules.save("2026-01-01 00:06:30", **times)
    else:
        schedules.runner.post("/v1/definitions/orders:resume")
    schedules.tick(MINUTES[6])
    assert schedules.outcomes()[1][1] == "missed"
    assert Counter(outcome for _, outcome in schedules.outcomes())["started"] == 4


@pytest.mark.usefixtures("no_starts")
def test_overlapping_ticks_and_repeated_messages_fire_each_time_once(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=2, catchUp="none")
    for minute in MINUTES[:3]:
        schedules.tick(minute)
        schedules.tick(minute)
    queue = schedules.mill.settings.fire_queue
    messages = schedules.runner.cloud.clients.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    for message in messages["Messages"]:
        schedules.mill.queues.send_texts(queue, [message["Body"]] * 2)
    schedules.serve_fire_queue(MINUTES[2])
    assert seconds_after_midnight(schedules) == list(range(2, 181, 2))


@pytest.mark.usefixtures("no_starts")
def test_the_next_tick_replaces_a_lost_continuation(schedules: ScheduleClock, faults: Faults) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=2, catchUp="none")
    faults.fail("sqs", "SendMessageBatch", how="before", times=9)
    assert schedules.tick(MINUTES[0])["failed"] == 1
    faults.clear_faults()
    for minute in MINUTES[1:3]:
        schedules.tick(minute)
        schedules.serve_fire_queue(minute)
    assert seconds_after_midnight(schedules) == list(range(2, 181, 2))


@pytest.mark.usefixtures("no_starts")
def test_schedules_beyond_the_limit_of_an_invocation_are_passed_on(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "MAX_TIMES_PER_CHUNK", 3)
    for number in range(4):
        schedules.save("2026-01-01 00:00", schedule_id=f"s{number}", everySeconds=30)
    tick = schedules.tick(MINUTES[0])
    assert (tick["fired"], tick["handed"]) == (4, 2)
    schedules.serve_fire_queue(MINUTES[0])
    assert seconds_after_midnight(schedules) == [30] * 4 + [60] * 4


def run_job(schedules: ScheduleClock, time: str) -> None:
    assert schedules.end(time)["state"] == "SUCCESS"


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_short_jobs_of_two_times_in_a_minute_all_run(schedules: ScheduleClock, overlap: str) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=30, overlap=overlap)
    for minute in MINUTES[:3]:
        half = f"{minute}:30"
        schedules.tick(minute)
        run_job(schedules, schedules.jobs()[-1])
        schedules.serve_fire_queue(half)
        run_job(schedules, schedules.jobs()[-1])
    outcomes = schedules.outcomes()
    assert outcomes[0] == ("2026-01-01 00:00:30", "started")
    assert [outcome for _, outcome in outcomes] == ["started"] * 6
    assert {schedules.state(time) for time, _ in outcomes} == {"SUCCESS"}


def test_a_long_job_skips_the_times_that_come_while_it_runs(schedules: ScheduleClock) -> None:
    """The Job of 00:00:30 starts at 00:01:00 and ends after 45 seconds."""
    schedules.save("2026-01-01 00:00", everySeconds=30, overlap="skip")
    schedules.tick(MINUTES[0])
    schedules.serve_fire_queue("2026-01-01 00:01:30")
    run_job(schedules, "2026-01-01 00:00:30")
    schedules.tick(MINUTES[1])
    schedules.serve_fire_queue("2026-01-01 00:02:30")
    assert schedules.outcomes() == [
        ("2026-01-01 00:00:30", "started"),
        ("2026-01-01 00:01", "skipped"),
        ("2026-01-01 00:01:30", "started"),
        ("2026-01-01 00:02", "skipped"),
    ]


def test_a_visit_that_waits_for_a_late_job_sends_few_messages(schedules: ScheduleClock) -> None:
    """While a Job runs for long, ticks, handed over times and continuations do not multiply."""
    schedules.save("2026-01-01 00:00", everySeconds=30, overlap="skip")
    schedules.lose_messages()
    sent = []
    for minute in MINUTES:
        schedules.tick(minute)
        sent.append(schedules.serve_fire_queue(f"{minute}:59"))
    assert max(sent) <= 3
    outcomes = [outcome for _, outcome in schedules.outcomes()]
    assert outcomes == ["started"] + ["skipped"] * (len(outcomes) - 1)
    assert len(outcomes) >= 16


def test_a_time_is_not_delayed_by_a_manual_firing(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="* * * * *", overlap="skip")
    body = {"dataTime": "2020-01-01T00:00:00Z"}
    schedules.runner.post("/v1/schedules/orders/s:fire", body, status=202)
    schedules.tick(MINUTES[0])
    assert schedules.outcomes()[-1] == (MINUTES[0], "skipped")


def test_messages_of_an_earlier_version_are_understood(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="* * * * *", overlap="skip")
    now = int(at(MINUTES[0]).timestamp() * 1000)
    body = json.dumps({"now": now, "schedules": [["orders", "s"]]})
    schedules.mill.queues.send_texts(schedules.mill.settings.fire_queue, [body])
    schedules.serve_fire_queue(MINUTES[0])
    job: JobRow = schedules.job(MINUTES[0])
    assert job.create_time == now
