"""The worker of the group `lambda`: SQS delivers the messages, and the function's time limits the tasks."""

from __future__ import annotations

import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

from shardmill.aws.clock import new_id, now_ms
from shardmill.aws.queues import Message
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.by_priority import lease_by_priority
from shardmill.engine.tasks.report import report
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.worker import Lease, Reported, Result
from shardmill.worker.files.cache import Cache
from shardmill.worker.isolation import protect
from shardmill.worker.logs import BucketLogs
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from shardmill.worker.task.task_files import FileAccess
from shardmill.worker.transport.base import Unreachable, retry_briefly
from shardmill.worker.transport.engine import EngineFileUrls, translate_errors

log = logging.getLogger("shardmill.worker")

WORKER_ID = "lambda"
MAX_SECONDS = 14 * 60
_KILL_SECONDS = 5.0
_MARGIN_SECONDS = 15.0
"""The part of the function's time that is reserved to kill tasks and to report."""

_RETRY_SECONDS = 5
_CACHE_BYTES = 200_000_000
_never = Event()


@cache
def _session() -> str:
    """This execution environment of the function, as a session of the worker `lambda`."""
    return f"{WORKER_ID}.{new_id()[:8]}"


def _cache() -> Cache:
    """Reference files in /tmp, which later invocations of the same environment can use."""
    return Cache(Path(tempfile.gettempdir()) / "shardmill-predata", _CACHE_BYTES)


def protect_on_lambda() -> None:
    """Hide the credentials of the role from tasks; in tests, other functions share the process."""
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        protect()


def run_batch(
    mill: Mill, records: Sequence[Mapping[str, Any]], context_deadline_ms: int, now: int
) -> list[str]:
    """Run as many tasks as an SQS event has messages, at most until `context_deadline_ms` (since 1970).

    These are the tasks of the messages, or waiting tasks of higher priorities. Returns the ids of the
    messages that SQS must keep because their tasks have not ended.
    """
    messages = [_message(mill, record) for record in records]
    leases = _lease(mill, messages, now)
    seconds = (context_deadline_ms - now) / 1000
    _hide(mill, leases, seconds)
    ended: set[tuple[str, int]] = set()
    for results in _run(mill, leases, min(MAX_SECONDS, seconds - _KILL_SECONDS - _MARGIN_SECONDS)):
        ended |= _report(mill, results)
    handles = {
        message.handle
        for task in leases
        if (task.task_id, task.attempt) in ended and (message := _message_of(task))
    }
    return [message.id for message in messages if message.handle not in handles]


def _hide(mill: Mill, leases: Sequence[Lease], seconds: float) -> None:
    """Hide the messages of leased tasks no longer than this invocation can take.

    The visibility timeout of the queue is six times as long: it would delay the retry of a crashed function.
    """
    hidden = math.ceil(max(seconds, 0)) + _RETRY_SECONDS
    mill.queues.hide((message, hidden) for task in leases if (message := _message_of(task)))


def _lease(mill: Mill, messages: Sequence[Message], now: int) -> list[Lease]:
    """Lease the tasks; after a failure, shorten the queue's long visibility timeout to retry soon."""
    try:
        with translate_errors():
            return lease_by_priority(mill, WorkerSession(_session()), messages, now)
    except Unreachable as error:
        log.warning(
            "failed to lease tasks; their messages become visible again in a few seconds",
            extra={"action": "lease-failed", "messages": len(messages), "error": str(error)},
        )
        mill.queues.hide((message, _RETRY_SECONDS) for message in messages)
        return []


def _report(mill: Mill, results: Sequence[Result]) -> set[tuple[str, int]]:
    """Report results; return the attempts whose tasks have ended."""

    def send() -> list[Reported]:
        with translate_errors():
            return report(mill, WORKER_ID, results, now_ms())

    reported = retry_briefly(send) if results else []
    counted = [one for one in reported if one.status in ("ok", "already")]
    return {(one.task_id, one.attempt) for one in counted if one.state and one.state.ended}


def _message(mill: Mill, record: Mapping[str, Any]) -> Message:
    name, queue = record["eventSourceARN"].rsplit(":", 1)[-1], mill.settings.lambda_queue
    if queue.rsplit("/", 1)[-1] != name:
        raise LookupError(f"the queue {name!r} is not the one of SHARDMILL_LAMBDA_QUEUES")
    attributes = record.get("attributes", {})
    receives, sent = (
        int(attributes.get(key, default))
        for key, default in (("ApproximateReceiveCount", 1), ("SentTimestamp", 0))
    )
    return Message(queue, record["receiptHandle"], record["body"], record["messageId"], receives, sent)


def _message_of(task: Lease) -> Message | None:
    """The message with which a task was leased; None if it was a copy."""
    receipt = Receipt.decode(task.receipt)
    return receipt.message if receipt else None


def _run(mill: Mill, leases: Sequence[Lease], limit: float) -> Iterator[list[Result]]:
    """Run tasks concurrently; yield the results of ended tasks as soon as there are any."""
    if not leases:
        return
    started = time.monotonic()
    hosts = tuple(filter(None, os.environ.get("SHARDMILL_ALLOW_HOSTS", "").split(",")))
    with tempfile.TemporaryDirectory(prefix="shardmill-", ignore_cleanup_errors=True) as root:
        runtime = Runtime(
            Path(root),
            Programs(python_path=tuple(filter(None, sys.path))),
            BucketLogs(mill.settings.bucket),
            kill_seconds=_KILL_SECONDS,
            allow_hosts=hosts,
            files=FileAccess(EngineFileUrls(mill, lambda: WORKER_ID), _cache(), hosts),
        )

        def run_one(task: Lease) -> Result:
            return execute(task, runtime, _never, limit_seconds=limit - (time.monotonic() - started))

        with ThreadPoolExecutor(max_workers=len(leases), thread_name_prefix="task") as pool:
            running = {pool.submit(run_one, task) for task in leases}
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                yield [future.result() for future in ended]
