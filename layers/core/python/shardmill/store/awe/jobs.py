"""Operations on jobs that only the AWE protocol has: descriptions, deletion at a time, numbered lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from shardmill.store import indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.keys import Partition
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update


def _partitions(states: Collection[str]) -> list[Partition]:
    """The partitions of an index with the jobs in some states, or with all."""
    return [place for state in states for place in indexes.jobs_in(state)] or indexes.all_jobs()


class AweJobs:
    def __init__(self, table: Table) -> None:
        self._table = table

    def set_info(self, job: JobRow, info: Mapping[str, Any], *, now: int) -> bool:
        """Replace the description of a job; False if it changed since it was read."""
        update = Update(keys.job(job.id)).set(info=to_json(info), update_time=now)
        return self._changed(update.if_equal(info=to_json(job.info)))

    def set_expiration(self, job: JobRow, at: int) -> bool:
        """Delete a job at a time, if it has ended by then; False if the job changed since it was read."""
        update = Update(keys.job(job.id)).set(delete_at=at)
        if job.state.ended and not job.event_pending and not job.heirs_pending:
            update.set(**indexes.due_job(job.id, at))
        return self._changed(update.if_equal(run=job.run, state=job.state.value))

    def set_token(self, job: JobRow) -> bool:
        """Note that a job has a data token, which is deleted with it."""
        return self._changed(Update(keys.job(job.id)).set(has_token=True).if_exists("jid"))

    def page(
        self, states: Collection[str], *, newest_first: bool, offset: int, limit: int, most: int
    ) -> tuple[list[JobRow], int]:
        """The jobs in some states, or all, from an offset in the order of submission; and how many there are.

        Only entries of an index are counted, at most `most`; the rows of the page alone are read.
        """
        index = indexes.STATE if states else indexes.LIST
        entries = merge(
            *(
                self._table.query(place, index=index, newest_first=newest_first)
                for place in _partitions(states)
            ),
            key=lambda entry: str(entry[indexes.LIST_SORT]),
            reverse=newest_first,
        )
        wanted, total = [], 0
        for total, entry in enumerate(islice(entries, most), start=1):
            if offset < total <= offset + limit:
                wanted.append(keys.key_of(entry))
        found = map(JobRow.from_item, self._table.batch_get(wanted)) if wanted else ()
        return sorted(found, key=lambda job: job.jid, reverse=newest_first), total

    def scan(
        self,
        states: Collection[str],
        *,
        newest_first: bool,
        beyond: int | None,
        most: int,
        only: Sequence[str],
    ) -> Iterator[JobRow]:
        """The jobs in some states, or all, in the order of their numbers, read up to `most` at a time.

        `beyond`: only those behind this number. `only`: the attributes to read; all if it is empty.
        """
        between = indexes.jobs_before(beyond) if newest_first else indexes.jobs_after(beyond)
        items = indexes.listed_rows(
            self._table,
            _partitions(states),
            indexes.STATE if states else indexes.LIST,
            limit=most,
            between=between,
            newest_first=newest_first,
            only=only,
        )
        return map(JobRow.from_item, items)

    def _changed(self, update: Update) -> bool:
        try:
            self._table.update(update)
        except ConditionFailed:
            return False
        return True
