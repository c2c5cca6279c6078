"""Schedules and backfills; every update is conditional on the row's `rev`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from shardmill.model.access.limits import Limits
from shardmill.store import indexes, keys
from shardmill.store.access.usage import LimitExceeded, Usage
from shardmill.store.row_mapping import Row, json_field
from shardmill.store.rows import ScheduleRow
from shardmill.store.table import ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Item, Update

ScheduleKey = tuple[str, str]
Skip = tuple[int, int]
"""The first and the last of consecutive times that started no job."""

Ticks = tuple[int, int]

_SKIPS_KEPT_SECONDS = 400 * 86_400
_ONE = Limits(schedules=1)


class BackfillRow(Row):
    job_name: str
    schedule_id: str
    number: int
    state: str
    create_time: int
    update_time: int
    user: str
    times: Sequence[int] = json_field(list)
    parallel: int = 1
    force: bool = False
    at: int = 0
    rev: int = 0
    running: Sequence[str] = field(default_factory=tuple)
    success: int = 0
    failed: int = 0
    skipped: int = 0
    notes: str = ""


class Schedules:
    def __init__(self, table: Table, usage: Usage | None = None) -> None:
        self._table = table
        self._usage = usage or Usage(table, Limits())

    def get(self, job_name: str, schedule_id: str) -> ScheduleRow | None:
        row = self.known(job_name, schedule_id)
        return None if row is None or row.deleted else row

    def known(self, job_name: str, schedule_id: str) -> ScheduleRow | None:
        """A schedule, deleted or not: the numbering of a deleted one continues if it is created again."""
        item = self._table.get(keys.schedule(job_name, schedule_id))
        return ScheduleRow.from_item(item) if item else None

    def by_key(self, wanted: Iterable[ScheduleKey]) -> list[ScheduleRow]:
        items = self._table.batch_get([keys.schedule(*key) for key in wanted])
        return [row for row in map(ScheduleRow.from_item, items) if not row.deleted]

    def of_job(self, job_name: str) -> Iterator[ScheduleRow]:
        partition = keys.partition_of(keys.schedule(job_name, ""))
        items = self._table.query(partition, prefix=keys.SCHEDULES_OF_JOB, consistent=True)
        return (row for row in map(ScheduleRow.from_item, items) if not row.deleted)

    def page(self, *, after: ScheduleKey | None, limit: int) -> Iterator[ScheduleRow]:
        """All schedules ordered by job name and id, from the one after `after`."""
        start = {**keys.schedule(*after), **_listed(after)} if after else None
        partition = indexes.all_of(indexes.SCHEDULES)
        items = indexes.listed_rows(self._table, [partition], indexes.LIST, start=start, limit=limit)
        return map(ScheduleRow.from_item, items)

    def save(
        self, known: ScheduleRow | None, wanted: ScheduleRow, application: str = ""
    ) -> ScheduleRow | None:
        """Write a schedule of a definition that exists; None if either has changed since it was read.

        Raises LimitExceeded if the application of the definition may not have another schedule.
        """
        in_use = Update(keys.definition_head(wanted.job_name)).set(used=wanted.update_time)
        in_use.if_exists("version").if_equal(deleted=None)
        counted = known.counted_in if known else ""
        wanted = wanted.evolve(
            rev=known.rev + 1 if known else 1, counted_in=self._usage.reference(application, counted)
        )
        if known:
            write = self._table.update_request(_change(known, wanted))
        else:
            item = {**keys.schedule(*wanted.key), **wanted.to_item(), **_places(wanted)}
            write = self._table.put_request(item, new=True)
        moves = self._usage.moves(counted, wanted.counted_in, _ONE)
        try:
            self._table.transact([self._table.update_request(in_use), write, *moves])
        except TransactionRefused as refused:
            if moves and refused.failed == [len(moves) + 1]:
                raise LimitExceeded(application, _ONE) from refused
            return None
        return wanted

    def change(
        self, row: ScheduleRow, changed: ScheduleRow, *, skipped: Iterable[Skip] = ()
    ) -> ScheduleRow | None:
        """Write the new values of a row and the times that were skipped; None if the row changed since."""
        try:
            self._table.transact(self.change_requests(row, changed, skipped=skipped))
        except TransactionRefused:
            return None
        return changed.evolve(rev=row.rev + 1)

    def change_requests(
        self, row: ScheduleRow, changed: ScheduleRow, *, skipped: Iterable[Skip] = ()
    ) -> list[Item]:
        """The same as requests of a transaction."""
        marks = [
            {**keys.skip(*row.key, until), "from": first, "ttl": until // 1000 + _SKIPS_KEPT_SECONDS}
            for first, until in skipped
        ]
        return [
            *(self._table.put_request(mark) for mark in marks),
            self._table.update_request(_change(row, changed)),
        ]

    def skips(self, job_name: str, schedule_id: str, start: int, end: int) -> list[Skip]:
        """The skipped times of a schedule between two times, in order."""
        partition, bounds = keys.skips_from(job_name, schedule_id, start)
        found: list[Skip] = []
        for item in self._table.query(partition, between=bounds, consistent=True):
            if item["from"] >= end:
                break
            found.append((item["from"], keys.parse_skip(item)))
        return found

    def delete(self, row: ScheduleRow, *, now: int) -> bool:
        """Mark a schedule as deleted; its numbering continues, so that a new one is never taken for it."""
        deleted = row.evolve(deleted=True, status=0, history=[], document={}, update_time=now, counted_in="")
        moves = self._usage.moves(row.counted_in, "", _ONE)
        try:
            self._table.transact([*self.change_requests(row, deleted), *moves])
        except TransactionRefused:
            return False
        return True

    def due(self, until: int) -> Iterator[tuple[int, ScheduleKey]]:
        """The next times up to a moment, each with its schedule, earliest first."""
        due = indexes.due_rows(indexes.DUE_SCHEDULES)
        items = self._table.query(due, index=indexes.DUE, between=indexes.due_until(until))
        return ((int(item[indexes.DUE_TIME]), keys.parse_schedule(item)) for item in items)

    def ticks(self) -> Ticks | None:
        """The first and the last of the ticks that followed each other in time."""
        item = self._table.get(keys.ticks())
        return (item["first"], item["last"]) if item else None

    def record_ticks(self, known: Ticks | None, ticks: Ticks) -> bool:
        """Write the ticks; False if another tick wrote them since they were read."""
        update = Update(keys.ticks()).set(first=ticks[0], last=ticks[1])
        try:
            self._table.update(update.if_equal(last=known[1] if known else None))
        except ConditionFailed:
            return False
        return True

    def add_backfill(self, row: BackfillRow, *, due: int) -> bool:
        """Create a backfill; False if its number is taken."""
        item = {**keys.backfill(*_backfill_key(row)), **row.to_item()}
        try:
            self._table.put_new({**item, **indexes.due(indexes.DUE_BACKFILLS, due)})
        except ConditionFailed:
            return False
        return True

    def backfill(self, job_name: str, schedule_id: str, number: int) -> BackfillRow | None:
        item = self._table.get(keys.backfill(job_name, schedule_id, number))
        return BackfillRow.from_item(item) if item else None

    def backfills(self, job_name: str, schedule_id: str, *, limit: int) -> Iterator[BackfillRow]:
        """The backfills of a schedule, newest first."""
        partition = keys.partition_of(keys.schedule(job_name, ""))
        prefix = keys.backfills_of(schedule_id)
        items = self._table.query(partition, prefix=prefix, newest_first=True, consistent=True, limit=limit)
        return map(BackfillRow.from_item, items)

    def change_backfill(self, row: BackfillRow, *, due: int | None, **changes: Any) -> BackfillRow | None:
        """Update a backfill and return it; None if it changed since it was read."""
        update = Update(keys.backfill(*_backfill_key(row)))
        update.set(rev=row.rev + 1, **indexes.due(indexes.DUE_BACKFILLS, due), **changes)
        try:
            return BackfillRow.from_item(self._table.update(update.if_equal(rev=row.rev), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def due_backfills(self, now: int) -> Iterator[tuple[str, str, int]]:
        due = indexes.due_rows(indexes.DUE_BACKFILLS)
        items = self._table.query(due, index=indexes.DUE, between=indexes.due_until(now))
        return map(keys.parse_backfill, items)


def _backfill_key(row: BackfillRow) -> tuple[str, str, int]:
    return row.job_name, row.schedule_id, row.number


def _change(row: ScheduleRow, changed: ScheduleRow) -> Update:
    old, new = row.to_item(), changed.to_item()
    wanted = {name: new.get(name) for name in {*old, *new} if old.get(name) != new.get(name)}
    update = Update(keys.schedule(*row.key)).set_all({**wanted, **_places(changed), "rev": row.rev + 1})
    return update.if_equal(rev=row.rev)


def _places(row: ScheduleRow) -> dict[str, Any]:
    """The index attributes of a schedule: in the list, and due at its next time while it is on."""
    return {
        **(indexes.not_listed() if row.deleted else _listed(row.key)),
        **indexes.due(indexes.DUE_SCHEDULES, row.next if row.status == 1 else None),
    }


def _listed(schedule: ScheduleKey) -> keys.Key:
    return indexes.listed(indexes.SCHEDULES, "/".join(schedule))
