"""/v1/dead-letters: messages and events that failed in every attempt."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import Response

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import no_content, now
from shardmill.engine import dead_letters
from shardmill.engine.mill import mill
from shardmill.model.operations.dead_letter import DeadLetter, DeadLetterContent
from shardmill.model.timestamps import from_ms
from shardmill.store.operations.dead_letters import DeadLetterRow


def list_dead_letters(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[DeadLetter]:
    """List the dead letters, newest first, without their payloads.

    The first page also takes new letters from the dead-letter queues, up to 100 from each.
    """
    after = pagination.decode_cursor(cursor, str)
    if after is None:
        dead_letters.collect(mill(), now())
    rows = mill().dead_letters.page(after=after, limit=limit + 1)
    return pagination.page(((row.id, _letter(row)) for row in rows), limit)


def read(letter_id: str) -> DeadLetterContent:
    """Return a dead letter with its payload."""
    row, payload = dead_letters.read(mill(), letter_id)
    return DeadLetterContent.model_validate({**_fields(row), "payload": payload})


def redrive(letter_id: str) -> DeadLetter:
    """Send a dead letter to its original destination again, and remove it from the list.

    If it fails again, it returns as another dead letter.
    """
    return _letter(dead_letters.redrive(mill(), letter_id))


def delete(letter_id: str) -> Response[None]:
    """Delete a dead letter."""
    dead_letters.delete(mill(), letter_id)
    return no_content()


def _letter(row: DeadLetterRow) -> DeadLetter:
    return DeadLetter.model_validate(_fields(row))


def _fields(row: DeadLetterRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "source": row.source,
        "time": from_ms(row.time),
        "reason": row.reason,
        "size": row.size,
    }
