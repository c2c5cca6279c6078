"""Dead letters: messages and events that failed in every attempt, until they are redriven or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardmill.store import keys
from shardmill.store.row_mapping import Row
from shardmill.store.table import Table

KEEP_SECONDS = 90 * 86_400
"""Shorter than the lifecycle rule in template.yaml keeps the payloads, so that every row has its payload."""


class DeadLetterRow(Row):
    """`size`: the bytes of its payload, which is an object in the bucket."""

    id: str
    source: str
    time: int
    reason: str
    size: int


class DeadLetters:
    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, rows: Sequence[DeadLetterRow], *, now: int) -> None:
        """Store letters. Idempotent."""
        ttl = now // 1000 + KEEP_SECONDS
        self._table.batch_put([{**keys.dead_letter(row.id), **row.to_item(), "ttl": ttl} for row in rows])

    def get(self, letter_id: str) -> DeadLetterRow | None:
        item = self._table.get(keys.dead_letter(letter_id))
        return DeadLetterRow.from_item(item) if item else None

    def page(self, *, after: str | None, limit: int) -> Iterator[DeadLetterRow]:
        """The letters, newest first; those before the id `after` in time."""
        start = keys.dead_letter(after) if after else None
        partition = keys.partition_of(keys.dead_letter(""))
        items = self._table.query(partition, newest_first=True, consistent=True, limit=limit, start=start)
        return map(DeadLetterRow.from_item, items)

    def delete(self, letter_id: str) -> bool:
        """Delete a letter; False if it did not exist."""
        return bool(self._table.delete(keys.dead_letter(letter_id)))
