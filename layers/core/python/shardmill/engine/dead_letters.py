"""Dead letters: messages and events that failed in every attempt are stored, listed and sent again on
request.

They arrive in the dead-letter queues. SQS can neither list a queue nor find a message in it, so listing the
dead letters first moves them to rows and objects. A message is deleted after its row is written, and a row
after its payload was sent: a crash in between repeats a step. A repeated submit finds the Job of the first,
because both have the same trigger; a repeated notification has the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from shardmill.aws import clients
from shardmill.aws.functions import Functions
from shardmill.aws.observability import logger
from shardmill.aws.queues import BATCH, Message
from shardmill.engine.errors import Conflict, NotFound
from shardmill.engine.files import keys
from shardmill.engine.jobs.submit_event import with_trigger
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import masked_event, seal_event
from shardmill.model.operations.dead_letter import REDRIVABLE
from shardmill.store.operations.dead_letters import DeadLetterRow

SUBMIT, NOTIFICATION, TASK = "submit", "notification", "task"
MAX_BATCHES = 10
"""Batches of letters that one call takes from each queue."""
MAX_REASON = 1_000
_HIDE_SECONDS = 60
_ID = re.compile(r"\d{1,15}-[0-9A-Za-z-]{1,100}", re.ASCII)


class DeadLetterNotFound(NotFound):
    code = "dead-letter-not-found"

    def __init__(self, letter_id: str) -> None:
        super().__init__(f"there is no dead letter {letter_id[:100]!r}; it may have been redriven or deleted")


class NotRedrivable(Conflict):
    """The dead letter cannot be sent again."""

    code = "not-redrivable"


def collect(mill: Mill, now: int) -> None:
    """Move letters from the dead-letter queues to rows, up to a limit for each queue. Idempotent."""
    for source, url in _queues(mill):
        for _ in range(MAX_BATCHES):
            # Long polling asks all servers of SQS, but takes a second if there is no message.
            if mill.queues.is_empty(url):
                break
            messages = mill.queues.receive(url, most=BATCH, wait=1, hide=_HIDE_SECONDS)
            if not messages:
                break
            _keep(mill, source, messages, now)


def any_in_queues(mill: Mill) -> bool:
    """Whether a dead-letter queue holds letters that were not collected yet."""
    return not all(mill.queues.is_empty(url) for _, url in _queues(mill))


def read(mill: Mill, letter_id: str) -> tuple[DeadLetterRow, Any]:
    """Return a letter and its payload: JSON, or text if it is not JSON."""
    row = _find(mill, letter_id)
    text = _payload(mill, row).decode()
    try:
        return row, masked_event(json.loads(text))
    except (ValueError, RecursionError):
        return row, text


def redrive(mill: Mill, letter_id: str) -> DeadLetterRow:
    """Send a letter to its original destination again, then delete it."""
    row = _find(mill, letter_id)
    if row.source not in REDRIVABLE:
        raise NotRedrivable(
            "an unreadable message belongs to no task, so it cannot be sent again; the tick sends the "
            "messages of open tasks again by itself. Delete the dead letter"
        )
    payload = _payload(mill, row)
    if row.source == SUBMIT:
        Functions(clients.lambda_(), mill.settings.stack).invoke_later("submit", payload)
    else:
        mill.queues.send_texts(mill.settings.notify_queue, [payload.decode()])
    mill.dead_letters.delete(row.id)
    extra = {"action": "redrive-dead-letter", "letterId": row.id, "source": row.source}
    logger.info("sent a dead letter again", extra=extra)
    return row


def delete(mill: Mill, letter_id: str) -> None:
    if not _ID.fullmatch(letter_id) or not mill.dead_letters.delete(letter_id):
        raise DeadLetterNotFound(letter_id)


def _queues(mill: Mill) -> Iterator[tuple[str, str]]:
    yield SUBMIT, mill.settings.submit_dead_queue
    yield NOTIFICATION, mill.settings.notify_dead_queue
    yield TASK, mill.settings.dead_queue


def _keep(mill: Mill, source: str, messages: Sequence[Message], now: int) -> None:
    rows: dict[str, DeadLetterRow] = {}
    for message in messages:
        reason, text = _reason_and_payload(source, message)
        letter_id = f"{message.sent}-{message.id}"
        payload = (_sealed(mill, text) if source == SUBMIT else text).encode()
        mill.files.write(keys.dead_letter(letter_id), payload)
        rows[letter_id] = DeadLetterRow(letter_id, source, message.sent, reason[:MAX_REASON], len(payload))
    mill.dead_letters.put(list(rows.values()), now=now)
    mill.queues.delete(messages)
    extra = {"action": "collect-dead-letters", "source": source, "count": len(rows)}
    logger.warning("stored dead letters", extra=extra)


def _sealed(mill: Mill, text: str) -> str:
    event, trigger = with_trigger(json.loads(text), "")
    return json.dumps(seal_event(mill, trigger, event))


def _reason_and_payload(source: str, message: Message) -> tuple[str, str]:
    if source == SUBMIT:
        return _failed_event(message)
    if source == NOTIFICATION:
        return "the notification was not delivered in any attempt", message.body
    return "the message is not a task message", message.body


def _failed_event(message: Message) -> tuple[str, str]:
    """Read the record that Lambda sends about an event that failed in all attempts."""
    try:
        record = json.loads(message.body)
        payload, context = record["requestPayload"], record["requestContext"]
        condition, request_id = str(context["condition"]), str(context.get("requestId", message.id))
    except (ValueError, TypeError, KeyError, AttributeError):
        return "the record of the failed event cannot be read", json.dumps(message.body)
    response = record.get("responsePayload")
    error = response if isinstance(response, dict) else {}
    cause = ": ".join(str(error[name]) for name in ("errorType", "errorMessage") if error.get(name))
    event, _ = with_trigger(payload, request_id)
    return cause or f"Lambda gave up the event: {condition}", json.dumps(event)


def _find(mill: Mill, letter_id: str) -> DeadLetterRow:
    row = mill.dead_letters.get(letter_id) if _ID.fullmatch(letter_id) else None
    if not row:
        raise DeadLetterNotFound(letter_id)
    return row


def _payload(mill: Mill, row: DeadLetterRow) -> bytes:
    return mill.files.read(mill.files.own(keys.dead_letter(row.id)), 0, row.size)
