"""Concurrency slots: for each line the set of runs that hold a slot, and the runs that wait for one.

A definition with `concurrency` is a line, and so is a schedule whose overlap is `queue`. Holders are a set,
not a counter, so that taking and releasing a slot can be repeated after a crash. Holders and waiters name the
run of a job: a late repetition of what an earlier run did never affects the slot of a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from shardmill.model.states import JobState
from shardmill.store import keys
from shardmill.store.table import ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Update

_PAGE = 10


class Holder(NamedTuple):
    job_id: str
    run: int


class Waiter(NamedTuple):
    jid: int
    job_id: str
    run: int


def only_run_claim(line: str, holder: Holder, *, before: Holder | None) -> Update:
    """The write that makes a run the only one of a line, if `before` still is the run before it."""
    update = Update(keys.only_run(line)).set(id=holder.job_id, run=holder.run)
    if before is None:
        return update.if_equal(id=None)
    return update.if_equal(id=before.job_id, run=before.run)


class Slots:
    def __init__(self, table: Table) -> None:
        self._table = table

    def take(self, line: str, holder: Holder, *, most: int) -> bool:
        """Take a slot for a run, unless all are taken; returns whether the run holds one."""
        member = keys.run_reference(*holder)
        update = Update(keys.slots(line)).add(jobs={member}).if_room_for("jobs", member, most)
        try:
            self._table.update(update)
        except ConditionFailed:
            return False
        return True

    def release(self, line: str, holders: Iterable[Holder]) -> None:
        members = {keys.run_reference(*holder) for holder in holders}
        self._table.update(Update(keys.slots(line)).delete("jobs", members))

    def release_suspended(self, line: str, waiter: Waiter) -> None:
        """Release the slot and the place of a run whose job is suspended; else do nothing.

        A job that was resumed meanwhile keeps its slot.
        """
        suspended = Update(keys.job(waiter.job_id))
        suspended.if_equal(run=waiter.run, state=JobState.SUSPENDED.value)
        member = keys.run_reference(waiter.job_id, waiter.run)
        requests = [
            self._table.check_request(suspended),
            self._table.update_request(Update(keys.slots(line)).delete("jobs", {member})),
            self._table.delete_request(keys.slot_waiter(line, waiter.jid)),
        ]
        with suppress(TransactionRefused):
            self._table.transact(requests)

    def holders(self, line: str) -> set[Holder]:
        item = self._table.get(keys.slots(line)) or {}
        return {Holder(*keys.parse_run_reference(member)) for member in item.get("jobs", ())}

    def only_run(self, line: str) -> Holder | None:
        """The run that last was the only one of a line; it may have ended."""
        item = self._table.get(keys.only_run(line))
        return Holder(item["id"], item["run"]) if item else None

    def add_waiter(self, line: str, waiter: Waiter) -> bool:
        """Add a run to the waiters of a slot; returns whether it is new."""
        item = {**keys.slot_waiter(line, waiter.jid), "id": waiter.job_id, "run": waiter.run}
        if self._table.get(keys.slot_waiter(line, waiter.jid)) == item:
            return False
        self._table.batch_put([item])
        return True

    def remove_waiter(self, line: str, waiter: Waiter) -> None:
        """Remove a run from the waiters of a slot; a later run of the job keeps its place."""
        with suppress(ConditionFailed):
            self._table.delete_if(Update(keys.slot_waiter(line, waiter.jid)).if_equal(run=waiter.run))

    def waiters(self, line: str) -> Iterator[Waiter]:
        """The runs that wait for a slot, longest first, read a few at a time."""
        partition = keys.partition_of(keys.slots(line))
        for item in self._table.query(partition, prefix=keys.SLOT_WAITERS, consistent=True, limit=_PAGE):
            yield Waiter(keys.parse_slot_waiter(item), item["id"], item["run"])
