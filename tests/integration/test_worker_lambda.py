"""The Lambda runner on moto: execution, reports, and messages that stay in the queue."""

import time
from typing import Any

import pytest

from shardmill.aws.queues import Message, Ticket
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.tasks.lease import lease
from shardmill.model.worker import Lease
from shardmill.worker import lambda_runner
from shardmill.worker.lambda_runner import run_batch
from shardmill.worker.task.execute import execute
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner


def now() -> int:
    return int(time.time() * 1000)


def records(runner: JobRunner, count: int, lane: int = 1) -> list[dict[str, Any]]:
    """Receive messages of the group `lambda` as records of a Lambda event."""
    url = runner.mill.settings.lambda_queues[lane]
    found: list[Message] = []

    def receive() -> None:
        found.extend(runner.mill.queues.receive(url, most=count - len(found), wait=0, hide=5400))

    runner.cloud.run_until(lambda: len(found) == count, meanwhile=receive)
    return [as_record(message) for message in found]


def as_record(message: Message) -> dict[str, Any]:
    name = message.queue.rsplit("/", 1)[-1]
    return {
        "messageId": message.id,
        "receiptHandle": message.handle,
        "body": message.body,
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{name}",
    }


def a_step(runner: JobRunner, **step: Any) -> None:
    runner.define({"stepName": "a", "workerGroups": ["lambda"], **step})
    runner.submit()


def test_a_batch_runs_concurrently_and_ends_its_job(runner: JobRunner) -> None:
    a_step(runner, sharding=3, content="sleep 0.5; echo $SHARDMILL_SHARD_INDEX")
    batch = records(runner, 3)
    assert run_batch(runner.mill, batch, now() + 60_000, now()) == []
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")
    assert [runner.task("a", n)["stdout"] for n in range(3)] == ["0\n", "1\n", "2\n"]
    assert runner.task("a", 0)["attempts"][0]["worker"] == "lambda"


def test_messages_of_tasks_to_be_retried_are_kept(runner: JobRunner) -> None:
    content = '[ $SHARDMILL_SHARD_INDEX != 1 ] || [ "$SHARDMILL_ATTEMPT" -ge 2 ] || exit 1'
    a_step(runner, sharding=2, content=content, failedRetries=1, failedInterval=0)
    batch = records(runner, 2)
    retained = run_batch(runner.mill, batch, now() + 60_000, now())
    shard = {record["messageId"]: Ticket.decode(record["body"]) for record in batch}
    assert [ticket.rank for message in retained if (ticket := shard[message])] == [1]
    redelivered = records(runner, 1)
    assert [record["messageId"] for record in redelivered] == retained
    assert run_batch(runner.mill, redelivered, now() + 60_000, now()) == []
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_permanent_failure_deletes_its_message(runner: JobRunner) -> None:
    a_step(runner, content="exit 42")
    assert run_batch(runner.mill, records(runner, 1), now() + 60_000, now()) == []
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")


def test_a_message_of_a_task_that_another_worker_runs_is_kept(runner: JobRunner) -> None:
    a_step(runner, content="echo hi")
    batch = records(runner, 1)
    duplicate = [{**batch[0], "messageId": "duplicate"}]
    held = lease(
        runner.mill, WorkerSession("lambda.other"), [lambda_runner._message(runner.mill, batch[0])], now()
    )
    assert len(held) == 1
    assert run_batch(runner.mill, duplicate, now() + 60_000, now()) == ["duplicate"]
    assert runner.task("a", 0)["state"] == "RUNNING"


def test_a_tasks_time_limit_is_capped_by_the_function_timeout(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_runner, "_KILL_SECONDS", 0.2)
    monkeypatch.setattr(lambda_runner, "_MARGIN_SECONDS", 0.3)
    a_step(runner, content="sleep 30", failedRetries=0, timeoutSeconds=600)
    assert run_batch(runner.mill, records(runner, 1), now() + 1500, now()) == []
    assert runner.task("a", 0)["reason"] == "timed-out"


def test_no_task_has_more_than_fourteen_minutes(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def watched(task: Lease, *args: Any, limit_seconds: float | None = None) -> Any:
        limits.append(limit_seconds)
        return execute(task, *args, limit_seconds=limit_seconds)

    monkeypatch.setattr(lambda_runner, "execute", watched)
    a_step(runner)
    assert run_batch(runner.mill, records(runner, 1), now() + 900_000, now()) == []
    assert limits[0] is not None
    assert 14 * 60 - 1 < limits[0] <= 14 * 60


def test_an_unreadable_message_goes_to_the_dead_letter_queue(runner: JobRunner) -> None:
    url = runner.mill.settings.lambda_queues[0]
    runner.cloud.clients.sqs.send_message(QueueUrl=url, MessageBody="not a ticket")
    assert len(run_batch(runner.mill, records(runner, 1, lane=0), now() + 60_000, now())) == 1
    dead = runner.cloud.clients.sqs.receive_message(QueueUrl=runner.mill.settings.dead_queue)["Messages"]
    assert [message["Body"] for message in dead] == ["not a ticket"]


def test_a_batch_that_cannot_be_leased_becomes_visible_soon(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_runner, "_RETRY_SECONDS", 1)
    a_step(runner)
    batch = records(runner, 1)
    faults.fail("dynamodb", "UpdateItem", how="throttle", when=_updates_block)
    assert run_batch(runner.mill, batch, now() + 60_000, now()) == [batch[0]["messageId"]]
    redelivered = records(runner, 1)
    assert run_batch(runner.mill, redelivered, now() + 60_000, now()) == []


def test_a_failed_report_is_repeated(runner: JobRunner, faults: Faults) -> None:
    a_step(runner)
    batch = records(runner, 1)
    faults.fail("dynamodb", "UpdateItem", nth=2, how="after", when=_updates_block)
    assert run_batch(runner.mill, batch, now() + 60_000, now()) == []
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def _updates_block(call: Call) -> bool:
    return str(call.params["Key"]["sk"]["S"]).startswith("b")
