"""Deadlines of jobs: one row for each, due at the deadline and deleted when it has been processed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from shardmill.model.history import ENGINE, Change
from shardmill.store import indexes, keys
from shardmill.store.history import update_with_history
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Item, Update


class Deadlines:
    def __init__(self, table: Table) -> None:
        self._table = table

    def due(self, now: int, *, limit: int) -> Iterator[tuple[str, int]]:
        """The job ids and due times of deadlines that have passed and are not processed, earliest first."""
        items = self._table.query(
            indexes.due_rows(indexes.DUE_DEADLINES),
            index=indexes.DUE,
            between=indexes.due_until(now),
            limit=limit,
        )
        for item in items:
            yield keys.parse_job(item), item[indexes.DUE_TIME]

    def postpone(self, job_id: str, *, seen: int, due: int) -> bool:
        """Set when the tick processes a deadline next; False if another tick or a rerun was faster."""
        update = Update(keys.deadline(job_id)).set_all({indexes.DUE_TIME: due, "taken": True})
        try:
            self._table.update(update.if_all_equal({indexes.DUE_TIME: seen}))
        except ConditionFailed:
            return False
        return True

    def mark_late(self, job: JobRow, reason: str, now: int) -> JobRow | None:
        """Mark a job as late and return it; None if it changed since it was read."""
        update = Update(keys.job(job.id)).set(late=True, update_time=now)
        update.if_equal(run=job.run, state=job.state.value, late=False)
        change = Change(now, job.state.value, job.run, ENGINE, reason)
        try:
            return JobRow.from_item(update_with_history(self._table, update, change))
        except ConditionFailed:
            return None

    def delete(self, job_id: str, *, seen: int) -> None:
        """Delete a processed deadline, unless a rerun has set another."""
        with suppress(ConditionFailed):
            unchanged = Update(keys.deadline(job_id)).if_all_equal({indexes.DUE_TIME: seen, "taken": True})
            self._table.delete_if(unchanged)


def deadline_rows(job_id: str, deadline: int | None) -> list[Item]:
    """The rows to write with a job, or with its next run, so that the tick finds its deadline."""
    if deadline is None:
        return []
    return [{**keys.deadline(job_id), **indexes.due(indexes.DUE_DEADLINES, deadline)}]
