"""Lost messages are found by step, also in a busy queue; messages that only wait are not sent again."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise

import pytest

from shardmill.engine.tasks.delivery import RESEND_AFTER_MS
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import lose_messages, message_count, start_tasks

DAY_MINUTES = 24 * 60


def beat_later(runner: JobRunner, minutes: float) -> None:
    """Let the worker send a heartbeat at the time of the next tick."""
    runner.later(60 * minutes)
    runner.worker.beat([])
    runner.mill.forget_workers(["default"])


def test_lost_messages_are_sent_again_while_the_queue_is_busy(runner: JobRunner) -> None:
    start_tasks(runner, 3)
    lose_messages(runner)
    runner.define({"stepName": "a"}, name="other")
    runner.submit(name="other")
    busy = ManualWorker(runner.mill, "busy")
    runner.cloud.run_until(lambda: len(busy.take()) == 1)  # its message stays in flight
    beat_later(runner, 3)
    runner.tick(minutes=3)
    assert runner.run()["state"] == "SUCCESS"
    assert runner.row(0).gen == 2


def test_lost_messages_are_sent_again_while_a_task_of_the_step_runs(runner: JobRunner) -> None:
    start_tasks(runner, 3)
    [held] = runner.take(1)
    lose_messages(runner)
    runner.later(180)
    runner.worker.beat([held])
    runner.tick(minutes=3)
    assert len(runner.take(2)) == 2
    assert runner.row(0).gen == 2


def test_a_lost_message_of_a_lost_worker_is_sent_again(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    runner.take(1)
    lose_messages(runner)
    runner.worker = ManualWorker(runner.mill, "next")
    beat_later(runner, 10)
    runner.tick(minutes=10)
    assert runner.run()["state"] == "SUCCESS"
    assert runner.task("a", 0)["attempt"] == 2


def test_messages_that_wait_in_a_busy_queue_keep_their_place(runner: JobRunner) -> None:
    """The worker is busy for two days; then it receives each task once and finds nothing lost."""
    start_tasks(runner, 3)
    minutes = [2, 5, 10, 30, 60, 120, 240, *range(480, 2 * DAY_MINUTES, 120)]
    for each in minutes:
        beat_later(runner, each)
        runner.tick(minutes=each)
    assert message_count(runner) <= 3 + 9 + 8  # the checks double up to six hours
    assert runner.run()["state"] == "SUCCESS"
    runner.work()
    assert (runner.row(0).gen, message_count(runner)) == (1, 0)


def test_checks_of_a_quiet_step_become_less_frequent(runner: JobRunner) -> None:
    """A task runs for half a day: its block is read at growing intervals, not at each tick."""
    start_tasks(runner, 1)
    [held] = runner.take(1)
    checked: list[int] = []
    for minutes in (2, 3, 5, 6, 10, 13, 20, 27, 40, 55, 90, 120, 180, 300, 400, 720):
        runner.later(60 * minutes)
        runner.worker.beat([held])
        runner.tick(minutes=minutes)
        if runner.row(0).checks > len(checked):
            checked.append(minutes)
    gaps = [later - earlier for earlier, later in pairwise(checked)]
    assert gaps == sorted(gaps)
    assert len(checked) <= 9
    assert message_count(runner) == 1


def test_messages_without_a_worker_are_sent_again_only_before_they_expire(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/empty", {})
    start_tasks(runner, 3, workerGroup="empty")
    for minutes in (3, 60, DAY_MINUTES, 9 * DAY_MINUTES):
        runner.tick(minutes=minutes)
        assert (runner.row(0).gen, message_count(runner, "empty")) == (1, 3)
    for generation in (2, 3):
        runner.tick(minutes=(generation - 1) * (RESEND_AFTER_MS / 60_000 + 60))
        assert runner.row(0).gen == generation
        assert message_count(runner, "empty") == 3 * generation


@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_an_interrupted_check_is_repeated(runner: JobRunner, faults: Faults, how: str) -> None:
    """A call of the tick or of the worker that finishes the check fails; the next tick starts over."""
    start_tasks(runner, 2)
    lose_messages(runner)
    faults.fail("sqs", "SendMessageBatch", how=how)  # type: ignore[arg-type]
    for minutes in (3, 6, 12):
        beat_later(runner, minutes)
        with suppress(FunctionError):
            runner.tick(minutes=minutes)
    assert runner.run()["state"] == "SUCCESS"


class TwoGroups:
    """A step of two groups: even tasks are sent to `busy`, odd ones to `idle`; both have a live worker."""

    def __init__(self, runner: JobRunner, sharding: int = 4, **step: object) -> None:
        self.runner = runner
        for name in ("busy", "idle"):
            runner.cloud.http("PUT", f"/v1/groups/{name}", {})
        self.busy = ManualWorker(runner.mill, "busy-worker", ["busy"])
        self.idle = ManualWorker(runner.mill, "idle-worker", ["idle"])
        start_tasks(runner, sharding, workerGroups=["busy", "idle"], **step)

    def tick(self, minutes: float) -> None:
        offset = int(60_000 * minutes)
        for worker in (self.busy, self.idle):
            worker.clock = lambda: int(time.time() * 1000) + offset
            worker.beat([])
        self.runner.mill.forget_workers(["busy", "idle"])
        self.runner.tick(minutes=minutes)


def test_lost_messages_of_one_group_are_found_while_another_group_is_busy(runner: JobRunner) -> None:
    groups = TwoGroups(runner)
    lose_messages(runner, "idle")
    leased: list[int] = []
    for minutes in (3, 6, 12):
        groups.tick(minutes)
        for _ in range(3):
            leased += [each.sharding.index for each in groups.idle.take()]
    assert {1, 3} <= set(leased)


def test_lost_messages_of_one_group_are_found_while_another_group_progresses(runner: JobRunner) -> None:
    groups = TwoGroups(runner, sharding=40)
    lose_messages(runner, "idle")
    leased: list[int] = []
    for minutes in range(1, 7):
        groups.tick(minutes)
        groups.busy.report(groups.busy.take(most=1))
        for _ in range(3):
            leased += [each.sharding.index for each in groups.idle.take(most=2)]
    assert leased
    assert all(index % 2 for index in leased[:2])


def test_messages_that_wait_in_the_busy_queues_of_two_groups_keep_their_place(runner: JobRunner) -> None:
    """One group is busy with other work for two days, the other works slowly: nothing is sent again."""
    groups = TwoGroups(runner, sharding=80)
    sent = message_count(runner, "busy"), message_count(runner, "idle")
    for minutes in (1, 2, 3, 4, 5, 6, 8, 10, 15, 30, 60, 120, 240, *range(480, 2 * DAY_MINUTES, 240)):
        groups.tick(minutes)
        groups.idle.report(groups.idle.take(most=1))
    assert runner.row(0).gen == 1
    assert sent == (40, 40)
    assert message_count(runner, "busy") <= 40 + 12
    taken = [each.sharding.index for _ in range(8) for each in groups.busy.take()]
    assert taken == list(range(0, 80, 2))
    assert runner.row(0).gen == 1
