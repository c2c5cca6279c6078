"""Concurrency slots: for each line the set of jobs that hold a slot, and the jobs that wait for one.

A definition with `concurrency` is a line, and so is a schedule whose overlap is `queue`. Holders are a set,
not a counter, so that taking and releasing a slot can be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shardmill.store import keys
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

_PAGE = 10


class Waiter(NamedTuple):
    jid: int
    job_id: str


class Slots:
    def __init__(self, table: Table) -> None:
        self._table = table

    def take(self, line: str, job_id: str, *, most: int) -> bool:
        """Take a slot for a job, unless all are taken; returns whether the job holds one."""
        update = Update(keys.slots(line)).add(jobs={job_id}).if_room_for("jobs", job_id, most)
        try:
            self._table.update(update)
        except ConditionFailed:
            return False
        return True

    def release(self, line: str, job_ids: Iterable[str]) -> None:
        self._table.update(Update(keys.slots(line)).delete("jobs", set(job_ids)))

    def holders(self, line: str) -> set[str]:
        item = self._table.get(keys.slots(line)) or {}
        return set(item.get("jobs", ()))

    def add_waiter(self, line: str, jid: int, job_id: str) -> None:
        self._table.batch_put([{**keys.slot_waiter(line, jid), "id": job_id}])

    def remove_waiter(self, line: str, jid: int) -> None:
        self._table.delete(keys.slot_waiter(line, jid))

    def waiters(self, line: str) -> Iterator[Waiter]:
        """The jobs that wait for a slot, longest first, read a few at a time."""
        partition = keys.partition_of(keys.slots(line))
        for item in self._table.query(partition, prefix=keys.SLOT_WAITERS, consistent=True, limit=_PAGE):
            yield Waiter(keys.parse_slot_waiter(item), item["id"])
