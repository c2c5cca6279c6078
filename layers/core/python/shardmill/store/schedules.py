"""Schedules and backfills; every change of a row is conditional on its `rev`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from shardmill.store import keys
from shardmill.store.rows import BackfillRow, ScheduleRow
from shardmill.store.table import ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Item, Update

ScheduleKey = tuple[str, str]
Skip = tuple[int, int]
"""The first and the last of times in a row that started nothing."""

_SKIPS_KEPT_SECONDS = 400 * 86_400


class Schedules:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, job_name: str, schedule_id: str) -> ScheduleRow | None:
        row = self.known(job_name, schedule_id)
        return None if row is None or row.deleted else row

    def known(self, job_name: str, schedule_id: str) -> ScheduleRow | None:
        """A schedule, or what is left of one that was deleted: its numbers go on where they were."""
        item = self._table.get(keys.schedule(job_name, schedule_id))
        return ScheduleRow.from_item(item) if item else None

    def by_key(self, wanted: Iterable[ScheduleKey]) -> list[ScheduleRow]:
        items = self._table.batch_get([keys.schedule(*key) for key in wanted])
        return [row for row in map(ScheduleRow.from_item, items) if not row.deleted]

    def of_job(self, job_name: str) -> Iterator[ScheduleRow]:
        partition = keys.schedule(job_name, "")["pk"]
        items = self._table.query(("pk", partition), prefix=("sk", keys.SCHEDULE), consistent=True)
        return (row for row in map(ScheduleRow.from_item, items) if not row.deleted)

    def page(self, *, after: ScheduleKey | None, limit: int) -> Iterator[ScheduleRow]:
        """All schedules by job and id, after a certain one."""
        start = {**keys.schedule(*after), "lk": "schedule", "ls": "/".join(after)} if after else None
        items = self._table.query(("lk", "schedule"), index=keys.LIST, start=start, limit=limit)
        return map(ScheduleRow.from_item, items)

    def save(self, known: ScheduleRow | None, wanted: ScheduleRow) -> bool:
        """Write a schedule of a definition that exists; False if either is another by now."""
        in_use = Update(keys.definition_head(wanted.job_name)).set(used=wanted.update_time)
        in_use.if_exists("version").if_equal(deleted=None)
        wanted.rev = known.rev + 1 if known else 1
        if known:
            write = self._table.update_request(_change(known, wanted))
        else:
            item = {**keys.schedule(*wanted.key), **wanted.to_item(), **_places(wanted)}
            write = self._table.put_request(item, new=True)
        try:
            self._table.transact([self._table.update_request(in_use), write])
        except TransactionRefused:
            return False
        return True

    def change(self, row: ScheduleRow, changed: ScheduleRow, *, skipped: Iterable[Skip] = ()) -> bool:
        """Write what a row has become, and which of its times started nothing; False if it changed since."""
        try:
            self._table.transact(self.change_requests(row, changed, skipped=skipped))
        except TransactionRefused:
            return False
        changed.rev = row.rev + 1
        return True

    def change_requests(
        self, row: ScheduleRow, changed: ScheduleRow, *, skipped: Iterable[Skip] = ()
    ) -> list[Item]:
        """The same as a transaction takes it."""
        marks = [
            {**keys.skip(*row.key, until), "from": first, "ttl": until // 1000 + _SKIPS_KEPT_SECONDS}
            for first, until in skipped
        ]
        return [
            *(self._table.put_request(mark) for mark in marks),
            self._table.update_request(_change(row, changed)),
        ]

    def skips(self, job_name: str, schedule_id: str, start: int, end: int) -> list[Skip]:
        """What a schedule left out between two times, in order."""
        partition = ("pk", keys.skip(job_name, schedule_id, 0)["pk"])
        bounds = ("sk", keys.sort_time(start), keys.sort_time(10**14))
        found: list[Skip] = []
        for item in self._table.query(partition, between=bounds, consistent=True):
            if item["from"] >= end:
                break
            found.append((item["from"], int(item["sk"]) - 10**14))
        return found

    def delete(self, row: ScheduleRow, *, now: int) -> bool:
        """Hide a schedule; its numbers go on if it is made again: nobody takes the new for the old."""
        gone = replace(row, deleted=True, status=0, history=[], document={}, update_time=now)
        return self.change(row, gone)

    def due(self, now: int) -> Iterator[ScheduleKey]:
        """The schedules whose next time has come, longest due first."""
        items = self._table.query(("dk", keys.DUE_SCHEDULES), index=keys.DUE, between=("da", -(10**14), now))
        for item in items:
            yield item["pk"].removeprefix("SCHED#"), item["sk"].removeprefix(keys.SCHEDULE)

    def add_backfill(self, row: BackfillRow, *, due: int) -> bool:
        """Whether it was written; False if its number is taken."""
        item = {**keys.backfill(*_backfill_key(row)), **row.to_item(), "dk": keys.DUE_BACKFILLS, "da": due}
        try:
            self._table.put_new(item)
        except ConditionFailed:
            return False
        return True

    def backfill(self, job_name: str, schedule_id: str, number: int) -> BackfillRow | None:
        item = self._table.get(keys.backfill(job_name, schedule_id, number))
        return BackfillRow.from_item(item) if item else None

    def backfills(self, job_name: str, schedule_id: str, *, limit: int) -> Iterator[BackfillRow]:
        """Newest first."""
        partition = ("pk", keys.schedule(job_name, "")["pk"])
        prefix = ("sk", keys.backfills_of(schedule_id))
        items = self._table.query(partition, prefix=prefix, newest_first=True, consistent=True, limit=limit)
        return map(BackfillRow.from_item, items)

    def change_backfill(self, row: BackfillRow, *, due: int | None, **changes: Any) -> BackfillRow | None:
        """Change a backfill and give it back; None if somebody else changed it since it was read."""
        update = Update(keys.backfill(*_backfill_key(row)))
        update.set(rev=row.rev + 1, dk=keys.DUE_BACKFILLS if due is not None else None, da=due, **changes)
        try:
            return BackfillRow.from_item(self._table.update(update.if_equal(rev=row.rev), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def due_backfills(self, now: int) -> Iterator[tuple[str, str, int]]:
        items = self._table.query(("dk", keys.DUE_BACKFILLS), index=keys.DUE, between=("da", 0, now))
        for item in items:
            _, schedule_id, number = item["sk"].split("#")
            yield item["pk"].removeprefix("SCHED#"), schedule_id, int(number)


def _backfill_key(row: BackfillRow) -> tuple[str, str, int]:
    return row.job_name, row.schedule_id, row.number


def _change(row: ScheduleRow, changed: ScheduleRow) -> Update:
    old, new = row.to_item(), changed.to_item()
    wanted = {name: new.get(name) for name in {*old, *new} if old.get(name) != new.get(name)}
    update = Update(keys.schedule(*row.key)).set_all({**wanted, **_places(changed), "rev": row.rev + 1})
    return update.if_equal(rev=row.rev)


def _places(row: ScheduleRow) -> dict[str, Any]:
    """Where the indexes have a schedule: in the list, and by its next time while it is on."""
    waits = row.status == 1 and row.next is not None
    return {
        "lk": None if row.deleted else "schedule",
        "ls": None if row.deleted else "/".join(row.key),
        "dk": keys.DUE_SCHEDULES if waits else None,
        "da": row.next if waits else None,
    }
