"""Priorities: a free slot gets a waiting task of the highest priority, and no task waits indefinitely."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from shardmill.aws.queues import Message, Queues
from shardmill.engine.groups import groups
from shardmill.engine.groups.lanes import queue_for
from shardmill.model.groups.lanes import MAX_LANES
from shardmill.model.worker import Lease, Registration, Result
from shardmill.worker.transport.base import Transport
from shardmill.worker.transport.direct import DirectTransport
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_threads import connect


@pytest.fixture
def no_caches(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached step accepts its old messages for two seconds; an empty queue counts as empty for one."""
    for cache in (runner.mill.recent_steps, runner.mill.empty_queues):
        monkeypatch.setattr(cache, "_keep_ms", -1)


FORMS = pytest.mark.parametrize("form", ["direct", "http"])


def define_jobs(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": "{{ params.n }}"}, name="small", params={"n": 1})
    runner.define({"stepName": "a", "sharding": 14, "maxTaskCount": 4}, name="large")


def submit(runner: JobRunner, priority: int, name: str = "small", **more: Any) -> str:
    """Submit a Job and wait until its tasks can be leased; return its trigger."""
    trigger = f"p{priority}" if priority >= 0 else f"m{-priority}"
    runner.submit(trigger, name, priority=priority, **more)
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)
    return trigger


def use_two_more_lanes(runner: JobRunner) -> None:
    """Use two more priorities, so that the next one gets a queue that workers do not poll yet."""
    for priority in (5, 6):
        queue_for(runner.mill, groups.read(runner.mill, "default"), priority)


def priority_of(task: Lease) -> int:
    return int(task.trigger[1:]) * (1 if task.trigger[0] == "p" else -1)


@contextmanager
def one_slot(runner: JobRunner, form: str, **registration: Any) -> Iterator[Transport]:
    transport = connect(runner.cloud, form)
    transport.register(Registration(**{"name": "one-slot", "groups": ["default"], **registration}))
    try:
        yield transport
    finally:
        transport.close()
        if isinstance(transport, DirectTransport):
            transport.join(5)


def run_next(slot: Transport, outcome: str = "success") -> int | None:
    """Run the next task; return the priority of its Job, or None if there is none."""
    tasks = slot.lease(1, 2)
    for task in tasks:
        held = {"taskId": task.task_id, "attempt": task.attempt, "receipt": task.receipt}
        slot.report([Result.model_validate({**held, "outcome": outcome})])
    return priority_of(tasks[0]) if tasks else None


def run_all(slot: Transport) -> list[int]:
    """Run tasks, one at a time, until none waits; return the priorities of their Jobs."""
    started: list[int] = []
    while (priority := run_next(slot)) is not None:
        started.append(priority)
    return started


@FORMS
@pytest.mark.parametrize("priorities", [range(1, 11), (*range(-12, 30, 5), 10**9)], ids=["1-10", "any"])
def test_tasks_start_in_the_order_of_their_priorities(
    runner: JobRunner, form: str, priorities: Sequence[int]
) -> None:
    """Ten priorities at once, submitted in random order: steps with few tasks and steps with a window."""
    random = Random(len(form) + sum(priorities))
    define_jobs(runner)
    expected: list[int] = []
    for at, priority in enumerate(random.sample(priorities, len(priorities))):
        count = random.randint(1, 5)
        name, tasks = ("large", 14) if at % 5 == 0 else ("small", count)
        submit(runner, priority, name, **({} if name == "large" else {"params": {"n": count}}))
        expected += [priority] * tasks
    with one_slot(runner, form) as slot:
        assert run_all(slot) == sorted(expected, reverse=True)


@pytest.mark.usefixtures("no_caches")
def test_a_waiting_job_of_a_higher_priority_gets_the_next_slot(runner: JobRunner) -> None:
    """Also one that is submitted while others run, and one whose priority is raised or lowered."""
    define_jobs(runner)
    submit(runner, 4, params={"n": 3})
    with one_slot(runner, "http") as slot:
        assert run_next(slot) == 4
        submit(runner, 7, params={"n": 2})
        assert [run_next(slot), run_next(slot)] == [7, 7]
        submit(runner, 1)
        runner.post("/v1/jobs/small/p1:priority", {"priority": 9})
        assert run_next(slot) == 1
        runner.post("/v1/jobs/small/p4:priority", {"priority": 0})
        submit(runner, 2, params={"n": 2})
        assert run_all(slot) == [2, 2, 4, 4]


def test_a_direct_worker_learns_of_a_new_priority_when_its_cached_group_expires(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    define_jobs(runner)
    for priority in (1, 2, 3):
        submit(runner, priority, params={"n": 3})
    with one_slot(runner, "direct") as slot:
        assert isinstance(slot, DirectTransport)
        monkeypatch.setattr(slot._mill.recent_groups, "_kept_for", lambda _: 60_000)
        assert run_next(slot) == 3
        submit(runner, 9, params={"n": 2})
        assert run_next(slot) == 3  # the lane of priority 9 is not polled yet
        slot._mill.recent_groups._rows.clear()
        assert run_all(slot) == [9, 9, 3, 2, 2, 2, 1, 1, 1]


@FORMS
def test_an_idle_worker_serves_a_new_lane_before_those_in_which_it_waits(
    runner: JobRunner, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    define_jobs(runner)
    with one_slot(runner, form) as slot, ThreadPoolExecutor(1) as thread:
        mill = slot._mill if isinstance(slot, DirectTransport) else runner.mill
        pending = thread.submit(slot.lease, 1, 15)
        time.sleep(1)
        use_two_more_lanes(runner)
        submit(runner, 9)
        monkeypatch.setattr(mill.recent_groups, "_keep_ms", -1)  # as after five seconds
        submit(runner, 1)
        assert [priority_of(task) for task in pending.result(15)] == [9]


def test_an_idle_direct_worker_serves_a_lane_that_is_added_while_it_waits(runner: JobRunner) -> None:
    """Otherwise it would wait twenty seconds in the lanes that it knows."""
    define_jobs(runner)
    for priority in (1, 2, 3):
        submit(runner, priority)
    with one_slot(runner, "direct") as slot, ThreadPoolExecutor(1) as thread:
        assert run_all(slot) == [3, 2, 1]
        pending = thread.submit(slot.lease, 1, 20)
        submit(runner, 9)
        assert [priority_of(task) for task in pending.result(19)] == [9]


@FORMS
def test_a_worker_that_cannot_run_the_higher_task_runs_the_lower(runner: JobRunner, form: str) -> None:
    define_jobs(runner)
    command = {"stepName": "a", "command": {"name": "fasta"}, "sharding": 3}
    runner.define(command, name="other")
    submit(runner, 9, "other")
    submit(runner, 1, params={"n": 2})
    with one_slot(runner, form, apps=["blast"]) as slot:
        assert run_all(slot) == [1, 1]


@FORMS
def test_a_task_on_the_skip_list_of_a_worker_does_not_delay_lower_ones(runner: JobRunner, form: str) -> None:
    runner.define({"stepName": "a"}, name="fails", failedRetries=3, failedInterval=0)
    define_jobs(runner)
    submit(runner, 9, "fails")
    submit(runner, 1, params={"n": 2})
    ManualWorker(runner.mill, "busy")  # it could run the task that failed
    with one_slot(runner, form) as slot:
        assert run_next(slot, "failed") == 9
        assert [run_next(slot), run_next(slot)] == [1, 1]


def test_a_task_that_waits_for_its_retry_does_not_delay_lower_ones(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, name="fails", failedRetries=3, failedInterval=60)
    define_jobs(runner)
    submit(runner, 9, "fails")
    submit(runner, 1, params={"n": 2})
    with one_slot(runner, "http") as slot:
        assert run_next(slot, "failed") == 9
        assert run_all(slot) == [1, 1]


@pytest.mark.usefixtures("no_caches")
def test_lower_priorities_run_when_a_higher_job_is_stopped_or_moved(runner: JobRunner) -> None:
    """It is suspended, killed, deleted or moved to another group; nothing has to be released after that."""
    runner.cloud.http("PUT", "/v1/groups/elsewhere", {})
    define_jobs(runner)
    for priority in (20, 9, 8, 7):
        submit(runner, priority, params={"n": 2})
    submit(runner, 1, params={"n": 4})
    with one_slot(runner, "http") as slot:
        assert run_next(slot) == 20
        runner.post("/v1/jobs/small/p20:suspend")
        assert run_next(slot) == 9
        runner.post("/v1/jobs/small/p9:kill")
        assert run_next(slot) == 8
        assert runner.cloud.http("DELETE", "/v1/jobs/small/p8?full=true").status in (200, 202, 204)
        assert run_next(slot) == 7
        runner.post("/v1/jobs/small/p7:group", {"workerGroups": ["elsewhere"]})
        assert [run_next(slot), run_next(slot)] == [1, 1]
        runner.post("/v1/jobs/small/p20:resume")
        assert run_all(slot) == [20, 1, 1]


def test_a_suspended_group_delays_no_other_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/elsewhere", {})
    define_jobs(runner)
    runner.define({"stepName": "a", "sharding": 2}, name="other", workerGroup="elsewhere")
    submit(runner, 9, "other")
    submit(runner, 1)
    with one_slot(runner, "http", groups=["elsewhere", "default"]) as slot:
        runner.post("/v1/groups/elsewhere:suspend")
        assert run_next(slot) == 1
        runner.post("/v1/groups/elsewhere:resume")
        assert run_all(slot) == [9, 9]


def test_a_worker_of_two_groups_serves_the_priorities_of_both_in_order(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/elsewhere", {})
    define_jobs(runner)
    runner.define({"stepName": "a", "sharding": 2}, name="other", workerGroup="elsewhere")
    for priority in (3, 7):
        submit(runner, priority, "other")
    for priority in (5, 1):
        submit(runner, priority)
    with one_slot(runner, "http", groups=["elsewhere", "default"]) as slot:
        assert run_all(slot) == [7, 7, 5, 3, 3, 1]


def test_more_priorities_than_queues_share_one(runner: JobRunner) -> None:
    define_jobs(runner)
    priorities = list(range(1, MAX_LANES + 5))
    for priority in priorities:
        submit(runner, priority)
    with one_slot(runner, "http") as slot:
        started = run_all(slot)
    assert sorted(started) == priorities
    exact = [priority for priority in started if priority < MAX_LANES]
    assert exact == sorted(exact, reverse=True)


def test_the_task_of_a_lost_worker_is_taken_again_from_its_lane(runner: JobRunner) -> None:
    runner.quick_group()
    runner.define({"stepName": "a"}, name="quick", workerGroup="quick")
    for priority in (5, 6, 7, 8):
        submit(runner, priority, "quick")
    assert [priority_of(task) for task in runner.take(4)] == [8, 7, 6, 5]
    runner.worker = ManualWorker(runner.mill, "next", ["quick"])
    again: set[int] = set()

    def take() -> None:  # each when its own lease has expired
        again.update(priority_of(task) for task in runner.worker.take() if task.attempt > 1)

    runner.cloud.run_until(lambda: again == {5, 6, 7, 8}, 30, meanwhile=take)


def test_a_lane_that_is_added_during_a_poll_is_served_first_in_the_next(runner: JobRunner) -> None:
    """The queue in which the worker found a message in the meantime does not count as empty."""
    define_jobs(runner)
    use_two_more_lanes(runner)
    submit(runner, 1, params={"n": 2})
    queues, receive = runner.mill.queues, Queues.receive

    def receive_late(url: str, **more: Any) -> list[Message]:
        found = receive(queues, url, **more)
        if found and not runner.mill.jobs.find("small", "p9"):
            submit(runner, 9)
        return found

    with one_slot(runner, "http") as slot, patch.object(queues, "receive", receive_late):
        first = [priority_of(task) for task in slot.lease(1, 0)]
        assert [*first, *run_all(slot)] == [9, 1, 1]


def test_a_task_over_http_costs_no_call_for_each_higher_priority(runner: JobRunner, faults: Faults) -> None:
    define_jobs(runner)
    for priority in range(2, 8):
        submit(runner, priority)
    submit(runner, 1, params={"n": 4})
    with one_slot(runner, "http") as slot:
        assert [run_next(slot) for _ in range(7)] == [7, 6, 5, 4, 3, 2, 1]  # six queues are empty now
        faults.meter.reset()
        assert [run_next(slot) for _ in range(3)] == [1, 1, 1]
    assert faults.meter.calls["sqs.ReceiveMessage"] <= 3 + 7  # a second may have passed


def test_a_worker_over_http_polls_recently_empty_queues_if_the_others_are_empty(runner: JobRunner) -> None:
    define_jobs(runner)
    for priority in (3, 5):
        submit(runner, priority)
    with one_slot(runner, "http") as slot:
        assert [run_next(slot), run_next(slot)] == [5, 3]
        assert slot.lease(1, 0) == []
        submit(runner, 1)
        assert [priority_of(task) for task in slot.lease(1, 0)] == [1]
