"""Fail each AWS call of a tick and of a Job's end once: each time gets one Job, each parent one child.

Reads are stale, Lambda invocations are throttled, and the worker's clock is wrong, in every run."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import How, Rerun, everywhere_once
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError
from support.moto.moto_cloud import moto_cloud
from support.scenarios.hostile_aws import hostile_aws, hostile_calls
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_clock import SkewedClock
from support.scenarios.schedule_clock import ScheduleClock, ms

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled, TooManyRequests)
WAYS: tuple[How, ...] = ("before", "after", "crash")
EVERY_FAULT = bool(os.environ.get("SHARDMILL_EVERY_FAULT"))
SEED = 5
SKEW_MS = 3_000
TIMES = ["2026-01-01 01:00", "2026-01-01 02:00"]


def faults_of_part(part: int) -> Iterator[Rerun]:
    """Fail a third of the calls in each of three ways; with SHARDMILL_EVERY_FAULT=1 all calls in all ways."""
    numbers = count()
    return everywhere_once(
        ways=(WAYS[part],), only=lambda _: EVERY_FAULT or next(numbers) % len(WAYS) == part
    )


def states(schedules: ScheduleClock) -> set[str]:
    """The states of the Jobs of all times; a time without a Job has none."""
    started = [time for time in TIMES if time in schedules.jobs()]
    return {schedules.state(time) for time in started}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(len(WAYS)), ids=WAYS)
def test_each_time_of_a_schedule_gets_one_job(part: int) -> None:
    assert sum(1 for run in faults_of_part(part) if _fires_each_time_once(run)) > 5


def _fires_each_time_once(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a"})
        schedules = ScheduleClock(runner)
        schedules.save("2026-01-01 00:00", cron="0 1,2 * * *", catchUp="all", overlap="queue")
        with run.armed() as faults, hostile_aws(cloud, faults, SEED), suppress(*FAULTS):
            schedules.tick("2026-01-01 02:00")
        minutes = count(1)

        def tick() -> None:
            minute = next(minutes)
            with suppress(*FAULTS), hostile_calls(cloud, minute):
                schedules.tick(f"2026-01-01 02:{minute % 60:02d}")

        cloud.run_until(lambda: states(schedules) == {"QUEUED", "WAITING"}, 30, meanwhile=tick)
        assert schedules.jobs() == TIMES
        assert schedules.outcomes() == [(time, "started") for time in TIMES]
        assert len(cloud.executions("job")) == 2
    return True


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(len(WAYS)), ids=WAYS)
def test_each_parent_gets_one_child(part: int) -> None:
    assert sum(1 for run in faults_of_part(part) if _starts_one_child(run)) > 5


def _starts_one_child(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a"}, name="parent")
        runner.define({"stepName": "a"}, name="child", dependencies=["parent"])
        runner.submit("t", "parent", dataTime="2026-01-01T00:00:00Z")
        runner.run(trigger="t", name="parent")
        with run.armed() as faults, hostile_aws(cloud, faults, SEED), suppress(*FAULTS):
            cloud.deliver_job_ends()
        minutes = count(2)

        def tick() -> None:
            minute = next(minutes)
            with suppress(*FAULTS), hostile_calls(cloud, minute):
                runner.tick(minute)

        place = ("child", ms("2026-01-01 00:00"), ms("2026-01-01 00:01"))
        cloud.run_until(
            lambda: [runner.mill.jobs.get(job_id) for _, job_id in runner.mill.runs.between(*place)],
            30,
            meanwhile=tick,
        )
        [(_, child_id)] = runner.mill.runs.between(*place)
        trigger = "20260101T000000Z"
        runner.worker.clock = SkewedClock(runner.worker.clock, SKEW_MS)
        assert runner.run(trigger=trigger, name="child")["state"] == "SUCCESS"
        assert [e["name"] for e in cloud.executions("job") if child_id in e["name"]] == [f"{child_id}-r1"]
    return True
