"""Workers straight to AWS whose clocks are wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shardmill.aws.settings import Settings
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.workers.registry import worker_id
from shardmill.model.worker import HeldTask, Registration
from shardmill.worker.transport.clock import MeasuredClock
from shardmill.worker.transport.direct import DirectTransport
from support.scenarios.job_runner import JobRunner


class WrongClock:
    def __init__(self, offset: float) -> None:
        self.offset = offset

    def __call__(self) -> float:
        return time.time() + self.offset


@contextmanager
def connected(runner: JobRunner, wall: WrongClock, name: str = "wrong") -> Iterator[DirectTransport]:
    settings = Settings.from_environment(runner.cloud.environment)
    transport = DirectTransport(settings, MeasuredClock(wall))
    transport.register(Registration(name=name, groups=["default"]))
    try:
        yield transport
    finally:
        transport.close()
        transport.join(5)


@contextmanager
def seen_correctly(runner: JobRunner, name: str = "wrong") -> Iterator[None]:
    """The block writes a heartbeat with the time of AWS; slow calls make the measurement less exact."""
    start = time.time()
    yield
    end = time.time()
    row = runner.mill.workers.get(worker_id(name))
    assert row is not None
    error = 2 + (end - start)
    assert start - error < row.seen / 1000 < end + error


@pytest.mark.parametrize("offset", [-300.0, 300.0])
def test_a_worker_writes_the_time_of_aws(runner: JobRunner, offset: float) -> None:
    with seen_correctly(runner), connected(runner, WrongClock(offset)):
        pass


def test_a_worker_whose_clock_is_ahead_does_not_take_the_task_of_a_live_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    [held] = runner.take(1)
    with connected(runner, WrongClock(90.0)) as ahead:  # the lease is 60 seconds
        receipt = Receipt.decode(held.receipt)
        assert receipt is not None
        runner.mill.queues.hide([(receipt.message, 0)])  # SQS may deliver a message twice
        assert ahead.lease(1, 2) == []
    assert runner.worker.report([held])[0].status == "ok"


def test_a_worker_whose_clock_jumps_is_measured_again(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    wall = WrongClock(0.0)
    with connected(runner, wall) as transport:
        leases: list[HeldTask] = []
        runner.cloud.run_until(
            lambda: leases,
            meanwhile=lambda: leases.extend(
                HeldTask(task_id=lease.task_id, attempt=lease.attempt, run=lease.run)
                for lease in transport.lease(1, 1)
            ),
        )
        for offset in (3_600.0, -3_600.0, 0.0):
            wall.offset = offset
            with seen_correctly(runner):
                assert transport.heartbeat(leases).drop == []
