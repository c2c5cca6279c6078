"""Schedules with a fixed delay: the next Job starts a while after the end of the previous one."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.downstream import job_ended
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import How, Rerun, everywhere_once
from support.fakes.lambda_server import FunctionError
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock, ms


@pytest.fixture
def schedules(runner: JobRunner) -> ScheduleClock:
    runner.define({"stepName": "a"})
    return ScheduleClock(runner)


def end(schedules: ScheduleClock, time: str, now: str, state: JobState = JobState.FAILED) -> JobRow:
    """End the Job of a time at another time, without its event."""
    job = schedules.job(time)
    ended = schedules.mill.jobs.move(
        job.id,
        job.run,
        state,
        sources=(JobState.INIT, JobState.QUEUED, JobState.RUNNING),
        now=ms(now),
        due=None,
        heirs_pending=True,
        completed_time=ms(now),
    )
    assert ended is not None
    return ended


def deliver(schedules: ScheduleClock, job: JobRow, now: str) -> bool:
    return job_ended(schedules.mill, job.id, job.run, ms(now), lambda: "new")


def awaited(schedules: ScheduleClock) -> str | None:
    awaited_job: str | None = schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").json["awaitedJob"]
    return awaited_job


FIRST = "2026-01-01 00:00"


def test_the_next_job_starts_after_the_end_of_the_previous_one(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30)
    schedules.run(FIRST, "2026-01-01 00:05")
    assert schedules.jobs() == [FIRST]
    assert (schedules.next(), awaited(schedules)) == (None, schedules.job(FIRST).id)
    job = end(schedules, FIRST, "2026-01-01 00:05:10.300")
    assert deliver(schedules, job, "2026-01-01 00:05:10.400")
    assert (schedules.next(), awaited(schedules)) == ("2026-01-01 00:05:41", None)
    deliver(schedules, job, "2026-01-01 00:05:20")
    assert schedules.next() == "2026-01-01 00:05:41"
    schedules.serve_fire_queue("2026-01-01 00:05:41")
    assert schedules.outcomes() == [(FIRST, "started"), ("2026-01-01 00:05:41", "started")]
    assert schedules.job("2026-01-01 00:05:41").create_time == ms("2026-01-01 00:05:41")


def test_only_the_known_next_time_is_listed_with_the_meaning(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30, startDate="2026-01-01T06:00:00Z")
    http = schedules.runner.cloud.http
    answer = http("GET", f"/v1/schedules/orders/s/next?from={FIRST.replace(' ', 'T')}Z").json
    assert [each["utc"] for each in answer["items"]] == ["2026-01-01T06:00:00.000Z"]
    assert answer["meaning"].startswith(
        "30 seconds after the end of the previous job, from 2026-01-01 06:00:00"
    )
    schedules.tick("2026-01-01 06:00:01")
    assert http("GET", "/v1/schedules/orders/s/next").json["items"] == []


def test_the_tick_finds_the_end_of_a_job_whose_event_was_lost(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30)
    schedules.run(FIRST, "2026-01-01 00:01")
    end(schedules, FIRST, "2026-01-01 00:05")
    schedules.tick("2026-01-01 00:59")
    assert schedules.jobs() == [FIRST]
    schedules.tick("2026-01-01 01:01")
    assert schedules.jobs() == [FIRST, "2026-01-01 00:05:30"]


def test_the_tick_continues_if_the_job_was_removed(schedules: ScheduleClock, monkeypatch: Any) -> None:
    schedules.save(FIRST, delaySeconds=30)
    schedules.run(FIRST, "2026-01-01 00:01")
    with monkeypatch.context() as patch:
        patch.setattr(type(schedules.mill.jobs), "get", lambda *_: None)
        schedules.tick("2026-01-01 01:01")
    assert schedules.next() == "2026-01-01 01:01:30"


def test_the_next_job_waits_for_a_job_that_runs_for_hours(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30)
    for hour in range(5):
        schedules.tick(f"2026-01-01 0{hour}:02")
    assert schedules.jobs() == [FIRST]
    job = end(schedules, FIRST, "2026-01-01 05:00")
    deliver(schedules, job, "2026-01-01 05:00")
    assert schedules.next() == "2026-01-01 05:00:30"


@pytest.mark.parametrize("full", ["false", "true"])
@pytest.mark.parametrize("killed", [False, True])
def test_the_next_job_starts_after_the_previous_one_was_deleted(
    schedules: ScheduleClock, full: str, killed: bool
) -> None:
    """Whether the Job is deleted while it runs, or before the event of its end arrives."""
    schedules.save(FIRST, delaySeconds=30)
    schedules.tick(FIRST)
    place = f"/v1/jobs/orders/{schedules.job(FIRST).trigger}"
    http = schedules.runner.cloud.http
    before = schedules.runner.worker.clock()
    if killed:
        assert http("POST", f"{place}:kill").status == 200
    assert http("DELETE", f"{place}?full={full}").status == 204
    schedules.runner.cloud.deliver_job_ends()
    upcoming = schedules.next()
    assert upcoming is not None
    assert 0 <= ms(upcoming) - before - 30_000 < 20_000


@pytest.mark.parametrize(
    ("limits", "jobs"),
    [
        ({"maxTimes": 2}, 2),
        ({"endDate": "2026-01-01T00:02:00Z"}, 2),
        ({"endDate": "2025-12-31"}, 0),
        ({}, 4),
    ],
)
def test_the_times_are_limited_by_their_number_and_by_the_end(
    schedules: ScheduleClock, limits: dict[str, Any], jobs: int
) -> None:
    schedules.save(FIRST, delaySeconds=60, **limits)
    for minute in range(0, 8, 2):
        now = f"2026-01-01 00:0{minute}"
        schedules.tick(now)
        if schedules.jobs() and schedules.state(schedules.jobs()[-1]) != "FAILED":
            job = end(schedules, schedules.jobs()[-1], f"2026-01-01 00:0{minute + 1}")
            deliver(schedules, job, f"2026-01-01 00:0{minute + 1}")
    assert len(schedules.jobs()) == jobs


def test_changes_while_a_job_runs_apply_to_the_next_job(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30)
    schedules.tick(FIRST)
    schedules.save("2026-01-01 00:01", delaySeconds=60)
    assert schedules.next() is None
    schedules.save("2026-01-01 00:02", delaySeconds=60, status=0)
    job = end(schedules, FIRST, "2026-01-01 00:03")
    deliver(schedules, job, "2026-01-01 00:03")
    schedules.tick("2026-01-01 00:10")
    assert schedules.jobs() == [FIRST]
    schedules.save("2026-01-01 00:20", delaySeconds=60)
    schedules.tick("2026-01-01 00:21")
    assert schedules.jobs() == [FIRST, "2026-01-01 00:04"]
    schedules.save("2026-01-01 00:22", everySeconds=3600)
    assert schedules.next() == "2026-01-01 01:00"


def test_a_time_without_a_job_is_followed_by_the_next(schedules: ScheduleClock) -> None:
    schedules.runner.define({"stepName": "a", "workerGroup": "nowhere"})
    schedules.save(FIRST, delaySeconds=30)
    schedules.tick(FIRST)
    assert schedules.outcomes() == [(FIRST, "refused")]
    assert schedules.next() == "2026-01-01 00:00:30"


def test_a_backfill_is_rejected_and_a_manual_job_changes_nothing(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30, startDate="2026-02-01")
    http = schedules.runner.cloud.http
    body = {"from": "2026-01-01", "to": "2026-01-02"}
    answer = http("POST", "/v1/schedules/orders/s:backfill", body)
    assert (answer.status, answer.json["code"]) == (422, "no-times")
    assert http("POST", "/v1/schedules/orders/s:fire", {"dataTime": "2026-01-01T00:00:00Z"}).status == 202
    assert schedules.next() == "2026-02-01 00:00"


def test_a_window_over_a_parent_with_a_fixed_delay_waits_for_its_runs(schedules: ScheduleClock) -> None:
    schedules.save(FIRST, delaySeconds=30)
    window = {"unit": "day", "from": 0, "to": 0}
    schedules.runner.define(
        {"stepName": "a"}, name="child", dependencies=[{"jobName": "orders", "window": window}]
    )
    child = schedules.runner.submit("t", "child", dataTime="2026-01-01T12:00:00Z")
    assert child["state"] == "WAITING"


FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled)
WAYS: tuple[How, ...] = ("before", "after", "crash")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", WAYS)
def test_the_end_of_a_job_is_followed_by_one_job_when_any_call_fails(how: How) -> None:
    assert sum(1 for run in everywhere_once(ways=(how,)) if _one_follows(run)) > 4


def _one_follows(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a"})
        schedules = ScheduleClock(runner)
        schedules.save(FIRST, delaySeconds=30, maxTimes=2)
        schedules.tick(FIRST)
        job = end(schedules, FIRST, "2026-01-01 00:01")
        with run.armed(), suppress(*FAULTS):
            deliver(schedules, job, "2026-01-01 00:01")
            schedules.tick("2026-01-01 00:01:31")
        minutes = count(2)
        cloud.run_until(
            lambda: len(schedules.jobs()) == 2,
            30,
            meanwhile=lambda: (
                deliver(schedules, job, "2026-01-01 00:02"),
                schedules.tick(f"2026-01-01 00:{next(minutes):02}"),
            ),
        )
        assert schedules.jobs() == [FIRST, "2026-01-01 00:01:30"]
        assert schedules.outcomes() == [(FIRST, "started"), ("2026-01-01 00:01:30", "started")]
    return True
