"""Write the history of jobs and steps: each entry goes with the change that it records.

The history is a list in the row. A row has at most 400 KB, so the oldest entries after the first are removed
when the list gets too long: an item that is too large could no longer be changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from shardmill.model.history import Change
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Item, Update

MAX_HISTORY_BYTES = 30_000
_KEPT_BYTES = 20_000
_KEPT_FIRST = 1


def update_with_history(table: Table, update: Update, change: Change) -> Item:
    """Apply an update with an entry for the history, and return the new item. Raises ConditionFailed."""
    item = table.update(update.append("history", change.encode()), returns="ALL_NEW")
    surplus = surplus_entries(item["history"])
    if surplus:
        shorter = Update(update.key).remove_elements("history", surplus)
        with suppress(ConditionFailed):  # a concurrent writer appended another entry, and removes the surplus
            table.update(shorter.if_length("history", len(item["history"])))
    return item


def surplus_entries(history: Sequence[str]) -> range:
    """The indexes of the entries to remove, so that further ones fit for a while; empty if all fit."""
    sizes = [len(entry.encode()) for entry in history]
    if sum(sizes) <= MAX_HISTORY_BYTES:
        return range(0)
    total, end = sum(sizes), _KEPT_FIRST
    while total > _KEPT_BYTES and end < len(sizes) - 1:
        total -= sizes[end]
        end += 1
    return range(_KEPT_FIRST, end)
