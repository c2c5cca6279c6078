"""Fail each AWS call of a hand-over and of the firing at its time once: each time gets one Job.

Reads are stale, Lambda invocations are throttled, and queues are unreliable, in every run."""

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
from support.scenarios.schedule_clock import ScheduleClock

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled, TooManyRequests)
SEED = 5
WAYS: tuple[How, ...] = ("before", "after", "crash")
TIMES = ["2026-01-01 00:00:10", "2026-01-01 00:00:20"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", WAYS)
def test_each_handed_over_time_gets_one_job(how: How) -> None:
    assert sum(1 for run in everywhere_once(ways=(how,)) if _fires_each_time_once(run)) > 8


def _fires_each_time_once(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a"})
        schedules = ScheduleClock(runner)
        schedules.save("2025-12-31 23:00", cron="quartz(10,20 0 0 1 1 ? 2026)")
        with run.armed() as faults, hostile_aws(cloud, faults, SEED), suppress(*FAULTS):
            schedules.tick("2026-01-01 00:00:05")
            schedules.serve_fire_queue("2026-01-01 00:00:20")
        # What SQS does with a message whose function failed; a late one finds nothing to do.
        schedules.serve_fire_queue("2026-01-01 00:00:20")
        seconds = count(25)

        def tick() -> None:
            second = next(seconds)
            with suppress(*FAULTS), hostile_calls(cloud, second):
                schedules.tick(f"2026-01-01 00:01:{second % 60:02}")

        cloud.run_until(
            lambda: [schedules.state(time) for time in schedules.jobs()] == ["QUEUED", "QUEUED"],
            30,
            meanwhile=tick,
        )
        assert schedules.jobs() == TIMES
        assert schedules.outcomes() == [(time, "started") for time in TIMES]
        assert len(cloud.executions("job")) == 2
    return True
