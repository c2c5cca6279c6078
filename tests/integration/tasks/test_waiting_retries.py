"""Retries that wait for long are delayed messages, which SQS does not count as in flight."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from shardmill.engine.tasks.messages import MAX_HIDDEN_WAIT_SECONDS
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults, How
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_clock import ManualClock, queue_clock
from support.scenarios.worker_api import start_tasks


def in_flight_and_delayed(runner: JobRunner) -> tuple[int, int]:
    group = runner.mill.groups.get("default")
    assert group is not None
    found = runner.cloud.clients.sqs.get_queue_attributes(QueueUrl=group.queues[1], AttributeNames=["All"])[
        "Attributes"
    ]
    names = ("ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")
    return int(found[names[0]]), int(found[names[1]])


@pytest.mark.parametrize("interval", [MAX_HIDDEN_WAIT_SECONDS + 1, 900, 3600, 86400])
def test_a_retry_that_waits_is_not_in_flight(runner: JobRunner, interval: int) -> None:
    start_tasks(runner, 3, failedRetries=1, failedInterval=interval)
    runner.worker.report(runner.take(3), "failed")
    assert in_flight_and_delayed(runner) == (0, 3)


def test_a_wait_longer_than_the_maximum_delay_is_extended(cloud: Cloud) -> None:
    """A day is 96 delays of 15 minutes; the retry starts at its time, and there is one message all along."""
    clock = ManualClock()
    clock.ms = int(time.time() * 1000)  # the functions use the real clock
    with queue_clock(clock):
        runner = JobRunner(cloud)
        start_tasks(runner, 1, failedRetries=1, failedInterval=86_400)
        held = runner.take(1)
        runner.worker.clock = clock
        begin = clock()
        runner.worker.report(held, "failed")
        for _ in range(96):
            clock.ms += 900_000
            taken = runner.worker.take()
            if taken:
                break
            assert in_flight_and_delayed(runner) == (0, 1)
        assert ([each.attempt for each in taken], clock() - begin) == ([2], 86_400_000)


@pytest.mark.parametrize("operation", ["SendMessageBatch", "DeleteMessageBatch"])
@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_a_retry_survives_any_failure_between_its_messages(
    cloud: Cloud, faults: Faults, operation: str, how: How
) -> None:
    clock = ManualClock()
    clock.ms = int(time.time() * 1000)  # the functions use the real clock
    with queue_clock(clock):
        runner = JobRunner(cloud)
        start_tasks(runner, 1, failedRetries=1, failedInterval=600)
        held = runner.take(1)
        runner.worker.clock = clock
        faults.fail("sqs", operation, how=how)
        with suppress(ProcessKilled, Exception):
            runner.worker.report(held, "failed")
        clock.ms += 700_000
        runner.worker.beat([])
        assert [each.attempt for each in runner.take(1)] == [2]
