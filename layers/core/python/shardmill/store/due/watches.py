"""When the tick looks at a job: the due times of job rows, and the watch rows of live jobs.

A job row is due when a change of its state has to be followed up. After that, a live job has a watch row: a
look at the job rewrites that small row and no entry of the lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from shardmill.model.states import JobState
from shardmill.store import indexes, keys
from shardmill.store.row_mapping import Row
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update


class Due(NamedTuple):
    """A row in the index `due`; the index may lag, so `seen` is compared when the row is taken."""

    seen: int
    job_id: str
    watch: bool


class WatchRow(Row):
    """The result of the last check of a live job."""

    da: int
    run: int = 0
    open: str = ""
    """The steps of the run that had started and not ended, as a bitmap in hex; empty if it is not known."""
    changed: int = 0
    """When something in the run changed last."""
    at: int = 0
    """The first step that the next look checks, if one look does not check all."""

    @property
    def open_steps(self) -> list[int]:
        bits = int(self.open or "0", 16)
        return [index for index in range(bits.bit_length()) if bits >> index & 1]


def bitmap(indices: Iterable[int]) -> str:
    """Encode a set of step indexes: 2,000 steps take 500 characters."""
    bits = 0
    for index in indices:
        bits |= 1 << index
    return f"{bits:x}" if bits else ""


class Watches:
    def __init__(self, table: Table) -> None:
        self._table = table

    def due(self, now: int, *, limit: int) -> list[Due]:
        """The rows that the tick has to process, longest due first."""
        parts = (
            self._table.query(part, index=indexes.DUE, between=indexes.due_until(now), limit=limit)
            for part in indexes.due_partitions()
        )
        found = (
            [
                Due(item[indexes.DUE_TIME], keys.parse_job(item), not keys.is_job(item))
                for item in islice(part, limit)
            ]
            for part in parts
        )
        return list(islice(merge(*found), limit))

    def rows(self, job_ids: Sequence[str]) -> tuple[dict[str, JobRow], dict[str, WatchRow]]:
        """The rows of jobs and their watches, by the id of the job."""
        wanted = [key for job_id in job_ids for key in (keys.job(job_id), keys.watch(job_id))]
        jobs, watches = {}, {}
        for item in self._table.batch_get(wanted):
            if keys.is_job(item):
                jobs[keys.parse_job(item)] = JobRow.from_item(item)
            else:
                watches[keys.parse_job(item)] = WatchRow.from_item(item)
        return jobs, watches

    def postpone_job(self, job_id: str, *, seen: int, due: int) -> bool:
        """Set when the tick processes a job row next; False if another tick was faster."""
        return self._update(_seen(keys.job(job_id), seen).set_all(indexes.due_job(job_id, due)))

    def begin(self, job_id: str, *, seen: int, due: int) -> bool:
        """Watch a job instead of its row; False if another tick was faster.

        The watch row is written first: after a crash between the writes, both rows are due.
        """
        self._table.batch_put([{**keys.watch(job_id), **indexes.due_job(job_id, due)}])
        return self._update(_seen(keys.job(job_id), seen).set_all(indexes.due_job(job_id, None)))

    def postpone(self, job_id: str, *, seen: int, due: int, **changes: Any) -> bool:
        """Set when the tick looks at a watched job next; False if another tick was faster."""
        update = _seen(keys.watch(job_id), seen).set_all(indexes.due_job(job_id, due))
        return self._update(update.set_all({name: value or None for name, value in changes.items()}))

    def end(self, job_id: str, *, seen: int) -> None:
        """Delete the watch row of a job that is not live, unless it was watched again since."""
        try:
            self._table.delete_if(_seen(keys.watch(job_id), seen))
        except ConditionFailed:
            return

    def look_soon(self, job_id: str, *, due: int) -> None:
        """Have all steps of a job checked, before a write that the tick would not find by itself."""
        self._update(Update(keys.job(job_id)).set_all(indexes.due_job(job_id, due)).if_exists("state"))

    def end_deletion(self, job_id: str) -> None:
        """Note that the tasks of a deleted job have been ended, unless there is more to do."""
        done = Update(keys.job(job_id)).remove("ending").set_all(indexes.due_job(job_id, None))
        self._update(done.if_equal(state=JobState.DELETED.value, purge=False, owed=None))

    def _update(self, update: Update) -> bool:
        try:
            self._table.update(update)
        except ConditionFailed:
            return False
        return True


def _seen(key: Mapping[str, str], seen: int) -> Update:
    return Update(dict(key)).if_all_equal({indexes.DUE_TIME: seen})
