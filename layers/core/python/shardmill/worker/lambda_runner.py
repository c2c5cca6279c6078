"""The worker of the group `lambda`: SQS brings the messages, the function's time is the limit."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

from shardmill.aws.clock import new_id, now_ms
from shardmill.aws.queues import BATCH, Message
from shardmill.engine.lease import lease
from shardmill.engine.mill import Mill
from shardmill.engine.report import report
from shardmill.engine.work import Receipt
from shardmill.model.worker import Lease, Result
from shardmill.worker.execute import Workshop, execute
from shardmill.worker.logs import BucketLogs
from shardmill.worker.programs import Programs

log = logging.getLogger("shardmill.worker")

WORKER_ID = "lambda"
MOST_SECONDS = 14 * 60
_KILL_SECONDS = 5.0
_MARGIN_SECONDS = 15.0
"""What is left of the function's time, when its tasks are ended, to kill them and to report."""

_never = Event()


@cache
def _reference() -> str:
    """This environment of the function, as a session of the worker `lambda`."""
    return f"{WORKER_ID}.{new_id()[:8]}"


def run_batch(
    mill: Mill, records: Sequence[Mapping[str, Any]], context_deadline_ms: int, now: int
) -> list[str]:
    """Run what the messages of an SQS event announce until `context_deadline_ms` (since 1970) at the latest.

    Returns the ids of the messages that SQS must keep: those whose task has not ended.
    """
    messages = [_message(mill, record) for record in records]
    leases = lease(mill, _reference(), messages, now)
    limit = min(MOST_SECONDS, (context_deadline_ms - now) / 1000 - _KILL_SECONDS - _MARGIN_SECONDS)
    results = _run(mill, leases, limit)
    ended = {
        (reported.task_id, reported.attempt)
        for at in range(0, len(results), BATCH)
        for reported in report(mill, WORKER_ID, results[at : at + BATCH], now_ms())
        if reported.status in ("ok", "already") and reported.state and reported.state.ended
    }
    handles = {_handle(task) for task in leases if (task.task_id, task.attempt) in ended}
    return [message.id for message in messages if message.handle not in handles]


def _message(mill: Mill, record: Mapping[str, Any]) -> Message:
    name = record["eventSourceARN"].rsplit(":", 1)[-1]
    queue = next((url for url in mill.settings.lambda_queues if url.rsplit("/", 1)[-1] == name), None)
    if not queue:
        raise LookupError(f"the queue {name!r} is none of SHARDMILL_LAMBDA_QUEUES")
    return Message(queue, record["receiptHandle"], record["body"], record["messageId"])


def _handle(task: Lease) -> str:
    receipt = Receipt.decode(task.receipt)
    return receipt.handle if receipt else ""


def _run(mill: Mill, leases: Sequence[Lease], limit: float) -> list[Result]:
    if not leases:
        return []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardmill-", ignore_cleanup_errors=True) as root:
        shop = Workshop(
            Path(root),
            Programs(python_path=tuple(filter(None, sys.path))),
            BucketLogs(mill.settings.bucket),
            kill_seconds=_KILL_SECONDS,
        )

        def one(task: Lease) -> Result:
            return execute(task, shop, _never, limit_seconds=limit - (time.monotonic() - began))

        with ThreadPoolExecutor(max_workers=len(leases), thread_name_prefix="task") as pool:
            return list(pool.map(one, leases))
