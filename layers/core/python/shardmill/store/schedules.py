"""Schedules and backfills; every change of a row is conditional on its `rev`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from shardmill.store import keys
from shardmill.store.rows import BackfillRow, ScheduleRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Item, Update

ScheduleKey = tuple[str, str]


class Schedules:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, job_name: str, schedule_id: str) -> ScheduleRow | None:
        item = self._table.get(keys.schedule(job_name, schedule_id))
        return ScheduleRow.from_item(item) if item else None

    def by_key(self, wanted: Iterable[ScheduleKey]) -> list[ScheduleRow]:
        return [ScheduleRow.from_item(i) for i in self._table.batch_get([keys.schedule(*k) for k in wanted])]

    def of_job(self, job_name: str, *, limit: int | None = None) -> Iterator[ScheduleRow]:
        partition = keys.schedule(job_name, "")["pk"]
        items = self._table.query(
            ("pk", partition), prefix=("sk", keys.SCHEDULE), consistent=True, limit=limit
        )
        return map(ScheduleRow.from_item, items)

    def page(self, *, after: str | None, limit: int) -> Iterator[ScheduleRow]:
        """All schedules by job and id; `after`: the place of one, `job/id`."""
        start = None
        if after:
            start = {**keys.schedule(*after.split("/", 1)), "lk": "schedule", "ls": after}
        items = self._table.query(("lk", "schedule"), index=keys.LIST, start=start, limit=limit)
        return map(ScheduleRow.from_item, items)

    def create(self, row: ScheduleRow) -> bool:
        """Whether it was written; False if there is one already."""
        place = f"{row.job_name}/{row.id}"
        item = {**keys.schedule(*row.key), **row.to_item(), **_due(row), "lk": "schedule", "ls": place}
        try:
            self._table.put_new(item)
        except ConditionFailed:
            return False
        return True

    def change(self, row: ScheduleRow, changed: ScheduleRow) -> bool:
        """Write what a row has become; False if somebody else changed it since it was read."""
        try:
            self._table.update(_change(row, changed))
        except ConditionFailed:
            return False
        changed.rev = row.rev + 1
        return True

    def change_request(self, row: ScheduleRow, changed: ScheduleRow) -> Item:
        """The same as a transaction takes it."""
        return self._table.update_request(_change(row, changed))

    def delete(self, row: ScheduleRow) -> bool:
        return self._table.delete_if(keys.schedule(*row.key), rev=row.rev)

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
    update = Update(keys.schedule(*row.key)).set_all({**wanted, **_due(changed), "rev": row.rev + 1})
    return update.if_equal(rev=row.rev)


def _due(row: ScheduleRow) -> dict[str, Any]:
    waits = row.status == 1 and row.next is not None
    return {"dk": keys.DUE_SCHEDULES if waits else None, "da": row.next if waits else None}
