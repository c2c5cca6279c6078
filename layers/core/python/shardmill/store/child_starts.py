"""The successes of parents that count for the next start of a child without a schedule: a row for each child.

The row changes only on condition of its `rev`, so of several parents that end at once exactly one commits the
start. The commit stores the id of the child's Job, so that every process creates the same Job.
That a parent's Job was counted is a row of its own, so that no row grows with the number of children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardmill.store import keys
from shardmill.store.row_mapping import Row, json_field
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Update


@dataclass(frozen=True)
class ChildStartRow(Row):
    job_name: str
    rev: int = 0
    succeeded: Mapping[str, list[Any]] = json_field()
    """By parent: the dataTime and the id of its latest Job that succeeded since the last start."""
    starting: Mapping[str, Any] = json_field()
    """The start that is committed while its Job is not known to exist: its `id` and `dataTime`.

    `parents` are the dataTimes of the parents' Jobs that it counts, `jobs` the ids of these Jobs.
    """


class ChildStarts:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, job_name: str) -> ChildStartRow:
        """The row of a child; an empty one if nothing is stored."""
        item = self._table.get(keys.child_start(job_name))
        return ChildStartRow.from_item(item) if item else ChildStartRow(job_name)

    def count(self, row: ChildStartRow, changed: ChildStartRow, parent: JobRow) -> bool | None:
        """Count a parent's Job: None if it was counted before, False if the row changed since it was read."""
        exists = Update(keys.job(parent.id)).if_exists("state").if_lacks("counted", row.job_name)
        requests = [
            self._table.update_request(_change(row, changed)),
            self._table.put_request(keys.counted(parent.id, row.job_name), new=True),
            self._table.check_request(exists),
        ]
        try:
            self._table.transact(requests)
        except TransactionRefused as refused:
            return None if {1, 2}.intersection(refused.failed) else False
        return True

    def change(self, row: ChildStartRow, changed: ChildStartRow) -> bool:
        """Write the new values of a row; False if it changed since it was read."""
        try:
            self._table.update(_change(row, changed))
        except ConditionFailed:
            return False
        return True


def _change(row: ChildStartRow, changed: ChildStartRow) -> Update:
    update = Update(keys.child_start(row.job_name)).set_all({**changed.to_item(), "rev": row.rev + 1})
    return update.if_equal(rev=row.rev or None)
