"""The Lambda runner on moto: execution, reports, and messages that stay in the queue."""

import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardmill.aws.queues import Message, Queues, Ticket
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.tasks.lease import lease
from shardmill.model.worker import Lease
from shardmill.worker import lambda_runner
from shardmill.worker.lambda_runner import run_batch
from shardmill.worker.task import execute as execution
from shardmill.worker.task.execute import execute
from shardmill.worker.task.programs import Programs
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults
from support.fakes.webhook_receiver import receiver
from support.scenarios.job_runner import JobRunner
from support.waits import run_until


def now() -> int:
    return int(time.time() * 1000)


def records(runner: JobRunner, count: int) -> list[dict[str, Any]]:
    """Receive messages of the group `lambda` as records of a Lambda event."""
    url = runner.mill.settings.lambda_queue
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
    url = runner.mill.settings.lambda_queue
    runner.cloud.clients.sqs.send_message(QueueUrl=url, MessageBody="not a ticket")
    assert len(run_batch(runner.mill, records(runner, 1), now() + 60_000, now())) == 1
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


def test_a_task_is_reported_when_it_ends_even_if_another_one_crashes_the_function(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OutOfMemory(BaseException):
        """Ends the function without another line of code, like a signal."""

    def run_one(task: Lease, *args: Any, **options: Any) -> Any:
        if task.sharding.index:
            run_until(lambda: runner.task("a", 0)["state"] == "SUCCESS")
            raise OutOfMemory
        return execute(task, *args, **options)

    a_step(runner, sharding=2)
    batch = records(runner, 2)
    monkeypatch.setattr(lambda_runner, "execute", run_one)
    with pytest.raises(OutOfMemory):
        run_batch(runner.mill, batch, now() + 60_000, now())
    assert [runner.task("a", rank)["state"] for rank in range(2)] == ["SUCCESS", "RUNNING"]


def test_an_error_in_the_worker_fails_one_task_and_the_others_are_reported(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(task: Lease, *args: Any) -> Any:
        if task.sharding.index:
            raise RuntimeError("can't start new thread")
        return real(task, *args)

    real = execution._attempt
    monkeypatch.setattr(execution, "_attempt", attempt)
    a_step(runner, sharding=2, content="echo 1", failedRetries=0)
    assert run_batch(runner.mill, records(runner, 2), now() + 60_000, now()) == []
    assert [runner.task("a", rank)["state"] for rank in range(2)] == ["SUCCESS", "FAILED"]
    message = runner.task("a", 1)["attempts"][0]["message"]
    assert message == "the worker failed to run the task: can't start new thread"


def test_messages_are_hidden_for_the_remaining_time_of_the_function(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[int] = []
    hide = Queues.hide

    def record(queues: Queues, messages: Iterable[tuple[Message, int]]) -> None:
        listed = list(messages)
        hidden.extend(seconds for _, seconds in listed)
        hide(queues, listed)

    monkeypatch.setattr(Queues, "hide", record)
    a_step(runner, sharding=2)
    batch = records(runner, 2)
    started = now()
    assert run_batch(runner.mill, batch, started + 60_000, started) == []
    assert hidden == [65, 65]


LAMBDA_ENVIRONMENT = {
    "AWS_LAMBDA_FUNCTION_NAME": "shardmill-runner",
    "LAMBDA_TASK_ROOT": "/var/task",
    "LANG": "en_US.UTF-8",
    "LD_LIBRARY_PATH": "/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/opt/lib",
    "TZ": ":UTC",
}


@pytest.mark.parametrize(
    "step",
    [{"type": "python", "content": "platform:python_version"}, {"type": "http"}, {"content": "echo 1"}],
    ids=["python", "http", "shell"],
)
def test_tasks_start_with_the_environment_variables_of_lambda(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: dict[str, Any]
) -> None:
    """The Python of Lambda needs LD_LIBRARY_PATH, and there is no HOME."""
    python = tmp_path / "python"
    missing = 'echo "python: error while loading shared libraries" >&2; exit 127'
    python.write_text(
        f'#!/bin/sh\n[ -n "$LD_LIBRARY_PATH" ] || {{ {missing}; }}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    for name in ("HOME", "USER", "LOGNAME", "TMPDIR", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in LAMBDA_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lambda_runner, "Programs", partial(Programs, python=str(python)))
    with receiver() as server:
        if step.get("type") == "http":
            monkeypatch.setenv("SHARDMILL_ALLOW_HOSTS", "127.0.0.1")
            step = step | {"content": {"url": server.url, "method": "POST"}}
        a_step(runner, **step)
        assert run_batch(runner.mill, records(runner, 1), now() + 60_000, now()) == []
    runner.cloud.run_until(lambda: runner.job()["state"] in ("SUCCESS", "FAILED"))
    assert runner.task("a", 0)["attempts"][0].get("message") is None
    assert runner.job()["state"] == "SUCCESS"


def test_a_retried_task_finds_the_checkpoint_of_its_earlier_attempt(runner: JobRunner) -> None:
    content = 'cat "$SHARDMILL_CHECKPOINT" && exit 0; echo 5 > "$SHARDMILL_CHECKPOINT"; exit 1'
    a_step(runner, content=content, failedRetries=1, failedInterval=0)
    run_batch(runner.mill, records(runner, 1), now() + 60_000, now())
    assert run_batch(runner.mill, records(runner, 1), now() + 60_000, now()) == []
    assert runner.task("a", 0)["stdout"] == "5\n"
