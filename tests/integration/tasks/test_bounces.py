"""Bounces: a task that a worker leaves to others reaches an idle worker that can run it at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest

from shardmill.aws.queues import Message, Queues
from shardmill.aws.settings import Settings
from shardmill.engine.workers import registry
from shardmill.engine.workers.poll import ROUND_SECONDS, pull
from shardmill.model.worker import LeaseRequest, Registration
from shardmill.store.workers import Tally
from shardmill.worker.transport.direct import DirectTransport
from support.fakes.leases import failed_result
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import lease, register, report


def test_a_bounced_task_is_visible_to_a_capable_worker_at_once(runner: JobRunner) -> None:
    """However often workers that skip the task have received it."""
    runner.define({"stepName": "a"}, failedRetries=2, failedInterval=0, priority=-1)
    runner.submit()
    other = ManualWorker(runner.mill, "other")
    runner.worker.report(runner.take(1), "failed")
    for _ in range(8):
        assert runner.worker.take() == []
    assert [held.attempt for held in other.take()] == [2]


def test_a_worker_leases_the_tasks_behind_those_that_it_skips(runner: JobRunner) -> None:
    """Otherwise it would receive the first messages of the queue repeatedly."""
    runner.define({"stepName": "a", "sharding": 4}, failedRetries=2, failedInterval=0)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    me = register(runner, name="skips-three")
    ManualWorker(runner.mill, "busy")
    failed = lease(runner, me, most=3)
    report(runner, me, failed, outcome="failed")
    indices = {each["sharding"]["index"] for each in failed}
    [held] = lease(runner, me)
    assert held["sharding"]["index"] not in indices
    assert lease(runner, me) == []
    assert len(runner.worker.take()) == 3  # the bounced messages are visible again


def test_a_direct_worker_leases_the_tasks_behind_those_that_it_skips(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 4}, failedRetries=2, failedInterval=0)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    transport = DirectTransport(Settings.from_environment(runner.cloud.environment))
    try:
        transport.register(Registration(name="skips-three", groups=["default"]))
        failed = transport.lease(3, 5)
        transport.report([failed_result(each, "exit code 1") for each in failed])
        [held] = transport.lease(1, 5)
        assert held.sharding.index not in {each.sharding.index for each in failed}
        assert len(runner.worker.take()) == 3
    finally:
        transport.close()
        transport.join(5)


@pytest.mark.parametrize("priority", [-1, 1, 10])
def test_every_lane_is_checked_each_round_while_a_worker_over_http_waits(
    runner: JobRunner, priority: int
) -> None:
    """A retry in any lane waits for the second round, although the worker skips another task."""
    runner.define({"stepName": "a", "sharding": 2}, failedRetries=2, failedInterval=0, priority=priority)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    me = registry.read(runner.mill, register(runner, name="waits")["id"])
    [own, foreign] = runner.take(2)
    runner.worker.report([own], "failed")
    runner.mill.workers.record(me.id, Tally(skip={own.task_id}), now=runner.worker.clock())
    ManualWorker(runner.mill, "busy")
    waited: list[int] = []

    def receive(url: str, *, most: int, wait: int, hide: int) -> list[Message]:
        if wait:
            waited.append(wait)
            assert len(waited) == 1, "the retry was not found in the second round"
            runner.worker.report([foreign], "failed")
            return []
        return Queues.receive(runner.mill.queues, url, most=most, wait=wait, hide=hide)

    with patch.object(runner.mill.queues, "receive", receive):
        request = LeaseRequest(worker_id=me.id, max=1, wait_seconds=20)
        [held] = pull(runner.mill, request, runner.worker.clock).leases
    assert (held.task_id, waited) == (foreign.task_id, [ROUND_SECONDS])


def test_a_worker_over_http_gets_the_task_that_several_direct_workers_skip(runner: JobRunner) -> None:
    """Direct workers wait in every queue at once; a worker over HTTP polls this one occasionally."""
    runner.define({"stepName": "a"}, failedRetries=2, failedInterval=0, priority=-1)
    runner.submit()
    [failed] = runner.take(1)
    me = register(runner, name="over-http")
    stop = threading.Event()
    with ExitStack() as stack:
        for number in range(3):
            transport = DirectTransport(Settings.from_environment(runner.cloud.environment))
            row = transport.register(Registration(name=f"direct-{number}", groups=["default"]))
            runner.mill.workers.record(row.id, Tally(skip={failed.task_id}), now=runner.worker.clock())
            transport.heartbeat([])  # reads the skip list
            stack.enter_context(_leasing(transport, stop))
        stack.callback(stop.set)
        runner.worker.report([failed], "failed")
        request = {"workerId": me["id"], "max": 1, "waitSeconds": 10}
        [held] = runner.post("/v1/work:lease", request)["items"]
    assert (held["taskId"], held["attempt"]) == (failed.task_id, 2)


@contextmanager
def _leasing(transport: DirectTransport, stop: threading.Event) -> Iterator[None]:
    """Lease in a thread until `stop` is set."""

    def work() -> None:
        while not stop.is_set():
            assert transport.lease(1, 20) == []

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        transport.close()
        thread.join(10)
        transport.join(10)
