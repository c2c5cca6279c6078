"""Leases under faults: repeated, lost and invalid messages, and concurrent workers."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.engine.access.receipts import verified
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.tasks import messages as task_messages
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.lease import delete_void
from shardmill.engine.tasks.lease import lease as lease_messages
from shardmill.model.worker import HandedBack
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import lease, message_count, register, start_tasks


def one_task(runner: JobRunner, **step: object) -> None:
    runner.define({"stepName": "a", **step})
    runner.submit()


def test_a_repeated_report_is_already_known_and_changes_nothing(runner: JobRunner) -> None:
    one_task(runner)
    held = runner.take(1)
    assert [item.status for item in runner.worker.report(held)] == ["ok"]
    assert [item.status for item in runner.worker.report(held)] == ["already"]
    assert [item.status for item in runner.worker.report(held, "failed", stderr="no!")] == ["stale-attempt"]
    task = runner.task("a", 0)
    assert (task["state"], task["reason"], task["stderr"]) == ("SUCCESS", None, None)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_late_report_of_a_lost_worker_is_stale(runner: JobRunner) -> None:
    one_task(runner)
    [first] = runner.take(1)
    other = ManualWorker(runner.mill, "other")
    late = runner.worker.clock() + 61_000
    other.clock = lambda: late
    runner.mill.queues.hide([(_message(runner, first.receipt), 0)])
    [second] = other.take()
    assert (first.attempt, second.attempt) == (1, 2)
    assert [item.status for item in runner.worker.report([first], stdout="I was first")] == ["stale-attempt"]
    assert runner.task("a", 0)["state"] == "RUNNING"
    assert [item.status for item in other.report([second])] == ["ok"]
    task = runner.task("a", 0)
    assert (task["state"], task["failed"], task["attempt"]) == ("SUCCESS", 0, 2)
    reasons = {attempt["attempt"]: attempt["reason"] for attempt in task["attempts"]}
    assert reasons == {1: "lost", 2: None}
    assert task["attempts"][0]["stdout"] == "I was first"


def _message(runner: JobRunner, receipt: str):  # type: ignore[no-untyped-def]
    from shardmill.aws.queues import Message
    from shardmill.engine.tasks.work_item import Receipt

    given = Receipt.decode(receipt)
    assert given is not None
    return Message(given.queue, given.handle, "")


def test_a_stale_report_over_http_is_rejected(runner: JobRunner) -> None:
    one_task(runner)
    [held] = runner.take(1)
    stale = {"taskId": held.task_id, "attempt": 7, "outcome": "success"}
    response = runner.cloud.http(
        "POST", "/v1/work:report", {"workerId": runner.worker.row.id, "results": [stale]}
    )
    assert response.status == 409
    assert response.json["code"] == "stale-attempt"
    assert response.json["items"][0]["status"] == "stale-attempt"


def test_a_report_without_a_receipt_counts(runner: JobRunner) -> None:
    one_task(runner)
    [held] = runner.take(1)
    result = {"taskId": held.task_id, "attempt": 1, "outcome": "success"}
    response = runner.cloud.http(
        "POST", "/v1/work:report", {"workerId": runner.worker.row.id, "results": [result]}
    )
    assert (response.status, response.json["items"][0]["status"]) == (200, "ok")
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_worker_cannot_report_a_task_of_another_worker(runner: JobRunner) -> None:
    one_task(runner)
    held = runner.take(1)
    other = ManualWorker(runner.mill, "other")
    assert [item.status for item in other.report(held, stderr="not mine")] == ["foreign-attempt"]
    assert runner.task("a", 0)["state"] == "RUNNING"
    assert runner.task("a", 0)["stderr"] is None


def test_a_live_lease_is_not_taken_by_repeated_deliveries(runner: JobRunner, faults: Faults) -> None:
    faults.unreliable_queues(duplicates=0.9)
    runner.define({"stepName": "a", "sharding": 40})
    runner.submit()
    job = runner.run()
    assert job["steps"][0]["counts"] == {"SUCCESS": 40}
    assert sorted(lease.sharding.index for lease in runner.leased) == list(range(40))
    assert {lease.attempt for lease in runner.leased} == {1}


def test_heartbeats_extend_a_lease(runner: JobRunner) -> None:
    one_task(runner)
    held = runner.take(1)
    runner.mill.queues.hide([(_message(runner, held[0].receipt), 0)])
    runner.later(61)
    runner.worker.beat(held)
    other = ManualWorker(runner.mill, "other")
    other.clock = runner.worker.clock
    assert other.take() == []
    assert [item.status for item in runner.worker.report(held)] == ["ok"]


def test_a_task_missing_from_the_heartbeats_of_its_worker_is_leased_again(runner: JobRunner) -> None:
    """The response to the lease was lost, so the worker's heartbeats do not name the task."""
    one_task(runner)
    [held] = runner.take(1)
    runner.mill.queues.hide([(_message(runner, held.receipt), 0)])
    runner.later(61)
    runner.worker.beat([])
    [second] = runner.worker.take()
    assert (second.task_id, second.attempt) == (held.task_id, 2)


def test_a_restarted_worker_does_not_keep_the_leases_of_its_previous_session(runner: JobRunner) -> None:
    one_task(runner)
    [held] = runner.take(1)
    runner.mill.queues.hide([(_message(runner, held.receipt), 0)])
    restarted = ManualWorker(runner.mill, "manual")
    assert restarted.row.id == runner.worker.row.id
    assert restarted.row.session == runner.worker.row.session + 1
    later = runner.worker.clock() + 61_000
    restarted.clock = lambda: later
    [second] = restarted.take()
    assert second.attempt == 2
    assert restarted.beat([held]) == [held.task_id]


def test_a_failed_task_is_retried_after_its_interval_until_no_retries_are_left(runner: JobRunner) -> None:
    one_task(runner, failedRetries=1, failedInterval=30)
    held = runner.take(1)
    assert (
        runner.worker.report(held, "failed", exit_code=3, reason="exit code 3", stderr="boom")[0].state
        == "READY"
    )
    assert runner.task("a", 0)["failed"] == 1
    assert runner.worker.take() == []
    runner.mill.queues.hide([(_message(runner, held[0].receipt), 0)])
    assert runner.worker.take() == []
    runner.later(31)
    runner.mill.queues.hide([(_message(runner, held[0].receipt), 0)])
    retried = runner.cloud.run_until(runner.worker.take)
    assert [lease.attempt for lease in retried] == [2]
    runner.worker.report(retried, "failed", exit_code=4, reason="exit code 4")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    task = runner.task("a", 0)
    assert (task["state"], task["failed"], task["exitCode"]) == ("FAILED", 2, 4)
    assert [(a["attempt"], a["exitCode"]) for a in task["attempts"]] == [(1, 3), (2, 4)]
    assert "exit code 4" in runner.job()["notes"]


def test_a_task_that_is_lost_too_often_fails(runner: JobRunner) -> None:
    one_task(runner, lostRetries=1)
    [held] = runner.take(1)
    for minutes, expected in ((2, 2), (4, None)):
        runner.later(60 * minutes)
        queue = _message(runner, held.receipt).queue
        runner.cloud.clients.sqs.send_message(QueueUrl=queue, MessageBody=_ticket(runner))
        taken = runner.worker.take()
        assert [lease.attempt for lease in taken] == ([expected] if expected else [])
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    task = runner.task("a", 0)
    assert (task["state"], task["failed"]) == ("FAILED", 0)
    assert [attempt["reason"] for attempt in task["attempts"]] == ["lost", "lost"]


def _ticket(runner: JobRunner, gen: int | None = None, rank: int = 0) -> str:
    from shardmill.aws.queues import Ticket

    step = runner.row(0)
    return Ticket(step.job_id, step.run, step.index, gen or step.gen, rank).encode()


@pytest.mark.parametrize("body", ["nonsense", "[]", '["x",1,2,3,"4"]', "{}", '["x",1,2,3]', "null", "7"])
def test_unreadable_messages_go_to_the_dead_letter_queue(runner: JobRunner, body: str) -> None:
    group = runner.mill.groups.get("default")
    assert group is not None
    runner.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=body)
    assert runner.worker.take() == []
    dead = runner.cloud.clients.sqs.receive_message(QueueUrl=runner.cloud.environment["SHARDMILL_DEAD_QUEUE"])
    assert [message["Body"] for message in dead["Messages"]] == [body]
    assert message_count(runner) == 0


def test_messages_of_another_generation_or_an_unknown_step_are_deleted(runner: JobRunner) -> None:
    one_task(runner)
    held = runner.take(1)
    queue = _message(runner, held[0].receipt).queue
    unknown = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    for body in (_ticket(runner, gen=99), _ticket(runner, rank=5), unknown):
        runner.cloud.clients.sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert runner.worker.take() == []
    runner.worker.report(held)
    assert message_count(runner) == 0
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_returned_task_is_leased_by_another_worker_without_a_failure(runner: JobRunner) -> None:
    one_task(runner)
    [held] = runner.take(1)
    given = HandedBack(
        task_id=held.task_id, attempt=held.attempt, receipt=held.receipt, reason="the worker stopped"
    )
    assert hand_back(runner.mill, "another-worker", [given], runner.worker.clock()) == []
    assert hand_back(runner.mill, runner.worker.row.id, [given], runner.worker.clock()) == [held.task_id]
    other = ManualWorker(runner.mill, "other")
    [retried] = other.take()
    assert retried.attempt == 2
    assert [item.status for item in runner.worker.report([held])] == ["stale-attempt"]
    other.report([retried])
    task = runner.task("a", 0)
    assert (task["state"], task["failed"]) == ("SUCCESS", 0)
    attempts = [
        (each["attempt"], each["worker"], each["reason"], each["message"]) for each in task["attempts"]
    ]
    assert attempts == [
        (1, runner.worker.row.id, "returned", "the worker stopped"),
        (2, other.row.id, None, None),
    ]


def test_concurrent_workers_lease_each_task_once(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 100})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).state == "READY")
    workers = [ManualWorker(runner.mill, f"worker-{n}") for n in range(6)]

    def work(worker: ManualWorker) -> list[str]:
        completed: list[str] = []
        idle = 0
        while idle < 5:
            leases = worker.take()
            idle = 0 if leases else idle + 1
            completed += [lease.task_id for lease in leases]
            worker.report(leases)
        return completed

    with ThreadPoolExecutor(6) as pool:
        taken = [task for tasks in pool.map(work, workers) for task in tasks]
    assert len(taken) == len(set(taken)) == 100
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_lease_written_twice_by_an_sdk_retry_is_granted(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    messages = runner.worker.receive()
    faults.fail("dynamodb", "UpdateItem", how="repeat")
    leases = lease_messages(runner.mill, WorkerSession.of(runner.worker.row), messages, runner.worker.clock())
    assert [lease.attempt for lease in leases] == [1, 1, 1]
    runner.worker.report(leases)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_leases_survive_a_throttled_delete(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    group = runner.mill.groups.get("default")
    assert group is not None
    unknown = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    runner.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=unknown)
    fault = faults.fail("sqs", "DeleteMessageBatch", how="throttle")
    leases = runner.worker.take()
    assert (fault.hits, len(leases)) == (1, 3)


def test_throttled_writes_raise_the_throttling_error(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    faults.fail("dynamodb", "UpdateItem", how="throttle")
    with pytest.raises(ClientError, match="throughput"):
        runner.worker.take()


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_leases_reach_the_worker_when_a_later_call_fails(runner: JobRunner, faults: Faults, nth: int) -> None:
    start_tasks(runner, 70)
    messages = [message for _ in range(8) for message in runner.worker.receive()]
    split = [message for message in messages if json.loads(message.body)[4] in (0, 1, 64)]
    assert len(split) == 3
    faults.fail("dynamodb", "UpdateItem", nth=nth, how="throttle")
    from shardmill.engine.groups.matching import WorkerSession
    from shardmill.engine.tasks.lease import lease as lease_messages

    leases = lease_messages(runner.mill, WorkerSession.of(runner.worker.row), split, runner.worker.clock())
    assert len(leases) >= 1
    running = [task["sharding"]["index"] for task in runner.step_tasks("a") if task["state"] == "RUNNING"]
    assert sorted(each.sharding.index for each in leases) == running


def test_tasks_of_an_expired_message_are_returned_by_a_new_message(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    receipt = verified(task["receipt"], task["taskId"], me["id"], os.environ["SHARDMILL_TOKEN_KEY"])
    assert receipt
    back = HandedBack(task_id=task["taskId"], attempt=1, receipt=receipt)
    assert hand_back(runner.mill, me["id"], [back], runner.worker.clock() + 55_000) == [task["taskId"]]
    later = runner.worker.clock
    runner.worker.clock = lambda: later() + 56_000
    assert [each.attempt for each in runner.worker.take()] == [2]


def test_void_messages_are_deleted_and_valid_ones_returned(runner: JobRunner) -> None:
    start_tasks(runner, 3)
    old = runner.worker.receive()
    assert runner.mill.jobs.raise_generation(runner.row(0)) is not None
    task_messages.send(runner.mill, runner.row(0), [1, 2], runner.worker.clock())
    new = runner.worker.receive()
    valid = delete_void(runner.mill, [*old, *new], runner.worker.clock())
    assert sorted(json.loads(message.body)[4] for message in valid) == [1, 2]
    assert valid == new


def test_many_messages_are_sent_again_in_slices(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new priority makes all messages void; the open tasks are sent again, three by a call."""
    monkeypatch.setattr(task_messages, "MAX_SENT_IN_REQUEST", 0)
    monkeypatch.setattr(task_messages, "MAX_SENT_IN_SLICE", 3)
    runner.define({"stepName": "a", "sharding": 10})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED")
    runner.post("/v1/jobs/orders/t1:priority", {"priority": 7})
    sizes: list[int] = []
    original = task_messages.send

    def send(mill: Any, step: Any, ranks: Any, *args: Any, **options: Any) -> None:
        sizes.append(len(ranks))
        original(mill, step, ranks, *args, **options)

    monkeypatch.setattr(task_messages, "send", send)
    assert runner.run()["state"] == "SUCCESS"
    assert max(sizes) == 3
    assert sum(sizes) >= 10
