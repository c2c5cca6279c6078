"""Priorities in Lambda groups: Lambda polls one queue, and tasks start in the order of their priorities."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from moto.sqs.models import sqs_backends

from shardmill.aws.clock import now_ms
from shardmill.engine.groups import lanes
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.running import open_step
from shardmill.engine.tasks import by_priority
from shardmill.model.groups.lanes import MAX_LANES
from shardmill.model.worker import Lease, Result
from shardmill.store.rows import GroupRow
from shardmill.worker import lambda_runner
from support.aws_rules.faults import Faults
from support.moto.stack import ACCOUNT, REGION
from support.scenarios.job_runner import JobRunner


class Started:
    """The priorities of the tasks that Lambda workers started, in order, and the results of these tasks."""

    def __init__(self) -> None:
        self.priorities: list[int] = []
        self.failing: set[int] = set()

    def __call__(self, task: Lease, *_: Any, **__: Any) -> Result:
        priority = int(task.trigger[1:]) * (1 if task.trigger[0] == "p" else -1)
        self.priorities.append(priority)
        outcome = "failed" if priority in self.failing else "success"
        held = {"taskId": task.task_id, "attempt": task.attempt, "receipt": task.receipt}
        return Result.model_validate({**held, "outcome": outcome})


@pytest.fixture
def started(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> Started:
    """Disable short-lived caches: a step accepts its old messages, a queue counts as empty."""
    tasks = Started()
    monkeypatch.setattr(lambda_runner, "execute", tasks)
    for cache in (runner.mill.recent_steps, runner.mill.empty_queues):
        monkeypatch.setattr(cache, "_keep_ms", -1)
    return tasks


def define(runner: JobRunner, **more: Any) -> None:
    step = {"stepName": "a", "sharding": "{{ params.n }}", "workerGroup": "lambda"}
    runner.define(step, name="small", params={"n": 1}, **more)
    runner.define({"stepName": "a", "sharding": 14, "maxTaskCount": 4, "workerGroup": "lambda"}, name="large")


def submit(runner: JobRunner, priority: int, tasks: int = 1, name: str = "small") -> str:
    """Submit a Job and wait until its messages are sent; return its trigger."""
    trigger = f"p{priority}" if priority >= 0 else f"m{-priority}"
    params = {} if name == "large" else {"params": {"n": tasks}}
    runner.submit(trigger, name, priority=priority, **params)
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)
    return trigger


def run_all(runner: JobRunner, started: Started, count: int, batch: int = 1) -> list[int]:
    """Serve the queue with one runner, `batch` messages at a time, until `count` more tasks were started.

    Returns their priorities; the tasks of an invocation start at the same time.
    """
    order: list[int] = []

    def serve() -> None:
        before = len(started.priorities)
        runner.cloud.serve_lambda_queue(batch)
        order.extend(sorted(started.priorities[before:], reverse=True))

    runner.cloud.run_until(lambda: len(order) >= count, 30, meanwhile=serve)
    return order


def row_of(runner: JobRunner) -> GroupRow:
    row = runner.mill.groups.get("lambda")
    assert row is not None
    return row


@pytest.mark.parametrize("batch", [1, 4, 10])
@pytest.mark.parametrize("priorities", [range(1, 11), (*range(-12, 30, 5), 10**9)], ids=["1-10", "any"])
def test_tasks_start_in_the_order_of_their_priorities(
    runner: JobRunner, started: Started, priorities: Sequence[int], batch: int
) -> None:
    """Ten priorities at once, submitted in random order. A step with a window has no more tasks that wait."""
    random = Random(batch + sum(priorities))
    define(runner)
    expected: list[int] = []
    for at, priority in enumerate(random.sample(priorities, len(priorities))):
        count = random.randint(1, 5)
        name, tasks = ("large", 14) if at % 5 == 0 and batch == 1 else ("small", count)
        submit(runner, priority, count, name)
        expected += [priority] * tasks
    assert run_all(runner, started, len(expected), batch) == sorted(expected, reverse=True)


def copies(runner: JobRunner) -> dict[int, int]:
    """The number of visible copies by priority, without empty queues."""
    row, found = row_of(runner), {}
    for priority, lane in row.lane_table.in_use():
        url = row.order_queues[lane]
        attributes = runner.cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        found[priority] = int(attributes["Attributes"]["ApproximateNumberOfMessages"])
    return {priority: count for priority, count in found.items() if count}


def waiting(runner: JobRunner) -> tuple[int, int]:
    """The messages of the queue that Lambda polls: visible, hidden."""
    attributes = runner.cloud.clients.sqs.get_queue_attributes(
        QueueUrl=runner.mill.settings.lambda_queue, AttributeNames=["All"]
    )["Attributes"]
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    return tuple(int(attributes[name]) for name in names)  # type: ignore[return-value]


def drain(runner: JobRunner) -> None:
    """Serve the queue until no message is visible."""
    runner.cloud.run_until(
        lambda: waiting(runner)[0] == 0, meanwhile=lambda: runner.cloud.serve_lambda_queue(10)
    )


def test_a_single_priority_costs_no_calls_for_the_order(
    runner: JobRunner, started: Started, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cache in (runner.mill.recent_steps, runner.mill.recent_groups):
        monkeypatch.setattr(cache, "_keep_ms", 60_000)
    define(runner)
    submit(runner, 1, 11)
    run_all(runner, started, 1)  # the first task also marks the step and the job as running
    faults.meter.reset()
    run_all(runner, started, 8)
    assert faults.meter.calls == {
        "dynamodb.UpdateItem": 2 * 8,  # a lease and a report
        "sqs.ChangeMessageVisibilityBatch": 8,
        "sqs.DeleteMessageBatch": 8,
    }
    assert row_of(runner).lanes == {}


def test_a_higher_job_gets_the_slots_of_messages_that_were_sent_before_it(
    runner: JobRunner, started: Started
) -> None:
    """The messages that had no copy are sent again, with one, so that none of them starts too late."""
    define(runner)
    submit(runner, 1, 12)
    assert run_all(runner, started, 2, batch=2) == [1, 1]
    submit(runner, 9, 3)
    assert copies(runner) == {9: 3}
    assert run_all(runner, started, 5, batch=5) == [9, 9, 9, 1, 1]
    assert copies(runner) == {1: 3}
    assert run_all(runner, started, 8, batch=3) == [1] * 8
    drain(runner)
    assert (copies(runner), waiting(runner)) == ({}, (0, 0))
    for priority in (1, 9):
        runner.cloud.run_until(lambda each=priority: runner.ended(f"p{each}", "small"), 30)
        assert runner.job(f"p{priority}", "small")["state"] == "SUCCESS"


def test_earlier_messages_are_served_before_those_of_a_lower_job(runner: JobRunner, started: Started) -> None:
    """Also if SQS delivers the later message first, because the job before it is larger."""
    define(runner)
    submit(runner, 1, 4)
    queue = runner.mill.settings.lambda_queue
    hidden = runner.mill.queues.receive(queue, most=4, wait=0, hide=60)
    submit(runner, -3, 2)
    late = runner.cloud._visible(queue, "runner", 2)
    runner.mill.queues.hide((message, 0) for message in hidden)
    runner.cloud._deliver(queue, "runner", late)
    assert started.priorities == [1, 1]
    assert run_all(runner, started, 4) == [1, 1, -3, -3]


def test_a_waiting_job_uses_its_changed_priority(runner: JobRunner, started: Started) -> None:
    define(runner)
    for priority in (4, 5, 6):
        submit(runner, priority, 2)
    runner.post("/v1/jobs/small/p4:priority", {"priority": 8})
    runner.post("/v1/jobs/small/p6:priority", {"priority": -2})
    assert run_all(runner, started, 6) == [4, 4, 5, 5, 6, 6]


def test_lower_priorities_run_when_a_higher_job_is_suspended_or_killed(
    runner: JobRunner, started: Started
) -> None:
    define(runner)
    for priority in (20, 9, 8):
        submit(runner, priority, 2)
    submit(runner, 1, 3)
    runner.post("/v1/jobs/small/p20:suspend")
    runner.post("/v1/jobs/small/p9:kill")
    assert run_all(runner, started, 3) == [8, 8, 1]
    runner.post("/v1/jobs/small/p20:resume")
    assert run_all(runner, started, 4) == [20, 20, 1, 1]
    drain(runner)
    assert waiting(runner) == (0, 0)


def test_a_retry_waits_for_its_time_and_is_then_served_first(runner: JobRunner, started: Started) -> None:
    define(runner, failedRetries=1, failedInterval=1)
    submit(runner, 5)
    submit(runner, 1, 200)
    started.failing = {5}
    assert run_all(runner, started, 2) == [5, 1]
    started.failing = set()

    def second_attempt() -> bool:
        return 5 in started.priorities[2:]

    runner.cloud.run_until(second_attempt, meanwhile=lambda: runner.cloud.serve_lambda_queue(1))
    assert started.priorities[-1] == 5
    assert runner.task("a", 0, "p5", "small")["attempts"][-1]["attempt"] == 2


def test_an_invocation_that_began_before_a_retry_is_due_keeps_its_copy(
    runner: JobRunner, started: Started
) -> None:
    """It receives the copy at the end of the delay, but decides with the time at which it began."""
    define(runner, failedRetries=1, failedInterval=0)
    submit(runner, 5)
    submit(runner, 1, 9)
    began = now_ms() - 5_000
    started.failing = {5}
    assert run_all(runner, started, 1) == [5]
    received = runner.mill.queues.receive(row_of(runner).queues[0], most=1, wait=0, hide=0)
    leased = by_priority.lease_by_priority(runner.mill, WorkerSession("lambda.early"), received, began)
    assert [task.trigger for task in leased] == ["p1"]
    row = row_of(runner)
    url = row.order_queues[row.lane_table.lanes[5].queue]
    [copy] = sqs_backends[ACCOUNT][REGION].queues[url.rpartition("/")[2]]._messages
    assert not copy.visible


def test_tasks_of_a_suspended_group_do_not_delay_those_of_another(
    runner: JobRunner, started: Started
) -> None:
    """All groups of kind lambda share the queues."""
    runner.cloud.http("PUT", "/v1/groups/l2", {"kind": "lambda"})
    define(runner)
    runner.define({"stepName": "a", "sharding": 3, "workerGroup": "l2"}, name="other")
    submit(runner, 9, name="other")
    submit(runner, 1, 2)
    submit(runner, 10)
    runner.post("/v1/groups/l2:suspend")
    assert run_all(runner, started, 3) == [10, 1, 1]
    runner.post("/v1/groups/l2:resume")
    submit(runner, 2)
    assert sorted(run_all(runner, started, 4)) == [2, 9, 9, 9]


def test_unused_lanes_are_removed_and_the_copies_end(runner: JobRunner, started: Started) -> None:
    define(runner)
    submit(runner, 1, 2)
    submit(runner, 7, 2)
    assert run_all(runner, started, 4, batch=10) == [7, 7, 1, 1]
    for minutes in range(1, 6):
        now = runner.worker.clock() + minutes * 60_000
        runner.mill.recent_groups._rows.clear()
        lanes.remove_unused(runner.mill, ["lambda"], now)
    assert set(row_of(runner).lane_table.lanes) == {1}
    runner.mill.recent_groups._rows.clear()
    runner.submit("again", "small", params={"n": 2})
    runner.cloud.run_until(lambda: waiting(runner)[0] == 2)
    assert copies(runner) == {}


def test_a_large_step_that_the_state_machine_enqueues_has_copies(
    runner: JobRunner, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_step, "MAX_SENT_AT_OPENING", 2)
    define(runner)
    submit(runner, 1, 2)
    submit(runner, 3, 12)
    assert copies(runner) == {3: 12}
    assert run_all(runner, started, 14, batch=5) == [3] * 12 + [1, 1]


def test_more_priorities_than_queues_share_one(runner: JobRunner, started: Started) -> None:
    define(runner)
    priorities = list(range(1, MAX_LANES + 4))
    for priority in priorities:
        submit(runner, priority)
    order = run_all(runner, started, len(priorities))
    assert sorted(order) == priorities
    exact = [priority for priority in order if priority < MAX_LANES]
    assert exact == sorted(exact, reverse=True)


def test_a_task_leased_with_its_copy_is_run_again_if_its_worker_is_lost(
    runner: JobRunner, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own message was not touched, and leads to a new attempt when the lease is over."""
    define(runner)
    submit(runner, 1)
    submit(runner, 5)
    queue = runner.mill.settings.lambda_queue
    late, other = runner.cloud._visible(queue, "runner", 1), runner.cloud._visible(queue, "runner", 1)

    def lose(*_: Any, **__: Any) -> Result:
        raise RuntimeError("the sandbox ended")

    with monkeypatch.context() as lost:
        lost.setattr(lambda_runner, "execute", lose)
        assert runner.cloud._deliver(queue, "runner", late) == 0  # leased the task of `other` with its copy
    assert runner.task("a", 0, "p5", "small")["state"] == "RUNNING"
    assert copies(runner) == {1: 1}
    runner.mill.groups.change("lambda", lease_seconds=1, bound=None, now=0)
    runner.mill.recent_groups.discard("lambda")
    runner.cloud.clients.sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=other[0]["ReceiptHandle"], VisibilityTimeout=0
    )
    assert sorted(run_all(runner, started, 2)) == [1, 5]
    assert runner.task("a", 0, "p5", "small")["attempts"][-1]["attempt"] == 2


def test_messages_and_copies_that_are_delivered_twice_run_no_task_twice(
    runner: JobRunner, started: Started, faults: Faults
) -> None:
    define(runner)
    for priority in (1, 4, 6):
        submit(runner, priority, 5)
    row, sqs = row_of(runner), runner.cloud.clients.sqs
    for url in (row.queues[0], *(row.order_queues[lane] for _, lane in row.lane_table.in_use())):
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        for message in answer.get("Messages", []):
            sqs.send_message(QueueUrl=url, MessageBody=message["Body"], MessageGroupId="again")
    assert run_all(runner, started, 15, batch=4) == [6] * 5 + [4] * 5 + [1] * 5
    drain(runner)
    assert (sorted(started.priorities, reverse=True), copies(runner)) == ([6] * 5 + [4] * 5 + [1] * 5, {})


def test_a_lost_copy_changes_only_the_order(runner: JobRunner, started: Started) -> None:
    define(runner)
    for priority in (1, 4):
        submit(runner, priority, 2)
    row = row_of(runner)
    runner.cloud.clients.sqs.purge_queue(QueueUrl=row.order_queues[row.lane_table.lanes[4].queue])
    assert sorted(run_all(runner, started, 4)) == [1, 1, 4, 4]


def test_recently_empty_queues_are_not_polled(
    runner: JobRunner, started: Started, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.mill.empty_queues, "_keep_ms", 60_000)
    monkeypatch.setattr(by_priority, "UNCOPIED_MS", -60_000)  # all messages have copies
    define(runner)
    for priority in range(2, 9):
        submit(runner, priority)
    submit(runner, 1, 6)
    assert run_all(runner, started, 8) == [8, 7, 6, 5, 4, 3, 2, 1]  # seven queues are known to be empty
    faults.meter.reset()
    assert run_all(runner, started, 3) == [1] * 3
    assert faults.meter.calls["sqs.ReceiveMessage"] == 3
