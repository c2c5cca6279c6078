"""Workers and their groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmill.store import indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.rows import GroupRow, StepRow, WorkerRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

KEEP_WORKER_SECONDS = 30 * 86400
_MOST_STUCK = 1_000


class NameTaken(Exception):
    """Another worker's name leads to the same id; choose another name."""


@dataclass(slots=True)
class Tally:
    """What a worker did since it was last written down.

    `failures` are those since its last success, `before` those before the first one in here, `longest` the
    most in a row.
    """

    checkout: int = 0
    completed: int = 0
    failed: int = 0
    compute_ms: int = 0
    failures: int = 0
    before: int = 0
    longest: int = 0
    succeeded: bool = False
    skip: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)

    def success(self, task_id: str, span: int) -> None:
        self.completed += 1
        self.compute_ms += span
        if not self.succeeded:
            self.before = self.failures
        self.failures, self.succeeded = 0, True
        self.done.add(task_id)

    def failure(self, task_id: str, span: int) -> None:
        self.failed += 1
        self.compute_ms += span
        self.failures += 1
        self.longest = max(self.longest, self.failures)
        self.skip.add(task_id)
        self.done.add(task_id)

    def add(self, later: Tally) -> None:
        """Take up what was done after all that is in here."""
        self.checkout += later.checkout
        self.completed += later.completed
        self.failed += later.failed
        self.compute_ms += later.compute_ms
        if later.succeeded and not self.succeeded:
            self.before = self.failures + later.before
        joined = self.failures + (later.before if later.succeeded else later.failures)
        self.longest = max(self.longest, later.longest, joined)
        self.failures = later.failures if later.succeeded else joined
        self.succeeded |= later.succeeded
        self.skip |= later.skip

    def write_to(self, update: Update) -> Update:
        amounts = {
            "checkout": self.checkout,
            "completed": self.completed,
            "failed": self.failed,
            "compute_ms": self.compute_ms,
        }
        update.add(**{name: amount for name, amount in amounts.items() if amount})
        if self.succeeded:
            update.set(failures=self.failures)
        elif self.failures:
            update.add(failures=self.failures)
        if self.skip:
            update.add(skip=self.skip)
        return update


@dataclass(frozen=True, slots=True)
class Stuck:
    """Tasks of a step that no live worker of a group could run, and the program that they need."""

    group: str
    step: tuple[str, int, int]
    need: str
    ranks: set[int]


class Workers:
    def __init__(self, table: Table) -> None:
        self._table = table

    def register(self, worker: WorkerRow, *, now: int) -> WorkerRow:
        """Write a worker, or take an old one of that name back with its next session.

        What others decided of it stays; that it had failed too often is forgiven to a new process.
        """
        members = [{**keys.member(group, worker.id), "id": worker.id} for group in worker.groups]
        update = Update(keys.worker(worker.id)).set(
            id=worker.id,
            name=worker.name,
            registration=to_json(worker.registration),
            groups=worker.groups,
            seen=now,
            last_busy=now,
            offline=False,
            **indexes.listed(indexes.WORKERS, worker.id),
            ttl=_ttl(now),
        )
        update.remove("work", "progress", "followed", "drain", "tired", "failures")
        update.add(session=1).set_once("create_time", now)
        try:
            item = self._table.update(update.if_new_or_equal("name", worker.name), returns="ALL_NEW")
        except ConditionFailed as taken:
            raise NameTaken from taken
        self._table.batch_put(members)
        return WorkerRow.from_item(item)

    def beat(
        self,
        worker_id: str,
        session: int,
        *,
        work: Iterable[str],
        progress: Mapping[str, Any],
        tally: Tally,
        now: int,
        offline: bool,
    ) -> WorkerRow | None:
        """One heartbeat; None if the worker is unknown or was registered again meanwhile."""
        held = set(work)
        update = Update(keys.worker(worker_id)).set(seen=now, offline=offline, ttl=_ttl(now))
        update.set(work=held or None, progress=to_json(progress) if progress else None)
        if held:
            update.set(last_busy=now)
        return self._changed(tally.write_to(update).if_equal(session=session))

    def count(self, worker_id: str, tally: Tally, *, now: int, taken: Iterable[str] = ()) -> WorkerRow | None:
        """Write down what a worker did and what it took; None if it is unknown."""
        update = tally.write_to(Update(keys.worker(worker_id)).set(last_busy=now))
        if tally.done:
            update.delete("work", tally.done).delete("followed", tally.done)
        elif taken:
            update.add(work=set(taken))
        return self._changed(update.if_exists("name"))

    def change(self, worker_id: str, **changes: Any) -> WorkerRow | None:
        """Set what was decided of a worker; None if it is unknown."""
        return self._changed(Update(keys.worker(worker_id)).set_all(changes).if_exists("name"))

    def fail(self, worker_id: str, failures: int) -> WorkerRow | None:
        """Add failures to those in a row."""
        return self._changed(Update(keys.worker(worker_id)).add(failures=failures).if_exists("name"))

    def tire(self, worker_id: str, why: str) -> WorkerRow | None:
        """Suspend a worker for its failures, unless it is already."""
        update = Update(keys.worker(worker_id)).set(tired=why).if_exists("name")
        return self._changed(update.if_equal(tired=None))

    def shorten_skips(self, worker_id: str, drop: set[str]) -> None:
        self._changed(Update(keys.worker(worker_id)).delete("skip", drop).if_exists("name"))

    def follow(self, worker_id: str, task_id: str, *, until: int) -> None:
        """Somebody reads the log of a task that this worker runs."""
        update = Update(keys.worker(worker_id)).add(followed={task_id}).set(followed_until=until)
        self._changed(update.if_contains("work", task_id))

    def leave_groups(self, worker: WorkerRow) -> None:
        for group in worker.groups:
            self._table.delete(keys.member(group, worker.id))

    def unfollow(self, worker_id: str, tasks: set[str]) -> None:
        self._changed(Update(keys.worker(worker_id)).delete("followed", tasks).if_exists("name"))

    def forget(self, worker: WorkerRow) -> None:
        self.leave_groups(worker)
        self._table.delete(keys.worker(worker.id))

    def _changed(self, update: Update) -> WorkerRow | None:
        try:
            return WorkerRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def get(self, worker_id: str) -> WorkerRow | None:
        item = self._table.get(keys.worker(worker_id))
        return WorkerRow.from_item(item) if item else None

    def by_id(self, worker_ids: Iterable[str]) -> dict[str, WorkerRow]:
        items = self._table.batch_get([keys.worker(worker_id) for worker_id in worker_ids])
        return {item["id"]: WorkerRow.from_item(item) for item in items}

    def of_group(self, group: str) -> list[WorkerRow]:
        """The workers that joined a group and did not say good-bye; a row that ran out leaves the group."""
        partition = keys.partition_of(keys.group(group))
        members = list(self._table.query(partition, prefix=keys.MEMBERS, consistent=True))
        workers = self.by_id(item["id"] for item in members)
        for item in members:
            if item["id"] not in workers:
                self._table.delete(keys.key_of(item))
        return [worker for worker in workers.values() if group in worker.groups]

    def page(self, *, after: str | None, limit: int) -> Iterator[WorkerRow]:
        start = {**keys.worker(after), **indexes.listed(indexes.WORKERS, after)} if after else None
        items = self._table.query(
            indexes.all_of(indexes.WORKERS), index=indexes.LIST, start=start, limit=limit
        )
        return map(WorkerRow.from_item, items)


class Groups:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, name: str) -> GroupRow | None:
        item = self._table.get(keys.group(name)) if name != keys.EVERY_GROUP else None
        return GroupRow.from_item(item) if item else None

    def create(self, group: GroupRow) -> bool:
        try:
            self._table.put_new(
                {
                    **keys.group(group.name),
                    **group.to_item(),
                    **indexes.listed(indexes.GROUPS, group.name),
                }
            )
        except ConditionFailed:
            return False
        return True

    def change(
        self, name: str, *, lease_seconds: int, types: Sequence[str] | None, now: int
    ) -> GroupRow | None:
        update = Update(keys.group(name)).set(lease_seconds=lease_seconds, update_time=now)
        if types is not None:
            update.set(types=list(types))
        try:
            return GroupRow.from_item(self._table.update(update.if_exists("name"), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def suspend(self, name: str, why: str | None) -> GroupRow | None:
        """Have nobody take tasks of a group, or let them (None); None if there is no such group."""
        update = Update(keys.group(name)).set(suspended=why).if_exists("name")
        try:
            return GroupRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def every(self) -> GroupRow:
        """A group that stands for all of them; it has no queues."""
        item = self._table.get(keys.group(keys.EVERY_GROUP)) or {}
        return GroupRow(keys.EVERY_GROUP, "", 0, [], 0, 0, 0, suspended=item.get("suspended", ""))

    def suspend_every(self, why: str | None) -> None:
        self._table.update(Update(keys.group(keys.EVERY_GROUP)).set(suspended=why))

    def delete(self, name: str) -> None:
        """Remove a group and everything that is noted under it."""
        self._table.delete(keys.group(name))
        for item in self._table.query(keys.partition_of(keys.group(name)), consistent=True):
            self._table.delete(keys.key_of(item))

    def next_generation(self, name: str) -> int:
        answer = self._table.update(Update(keys.group_counter(name)).add(value=1), returns="UPDATED_NEW")
        return int(answer["value"])

    def page(self, *, after: str | None = None, limit: int = 100) -> Iterator[GroupRow]:
        start = {**keys.group(after), **indexes.listed(indexes.GROUPS, after)} if after else None
        items = self._table.query(
            indexes.all_of(indexes.GROUPS), index=indexes.LIST, start=start, limit=limit
        )
        return map(GroupRow.from_item, items)

    def note_giant(self, name: str, step: tuple[str, int, int]) -> None:
        """Note that a step with more tasks than a group can share at once is open in it."""
        self._giants(Update(keys.group(name)).add(giants={keys.step_reference(step)}))

    def giant_gone(self, name: str, step: tuple[str, int, int]) -> None:
        self._giants(Update(keys.group(name)).delete("giants", {keys.step_reference(step)}))

    def _giants(self, update: Update) -> None:
        try:
            self._table.update(update.if_exists("name"))
        except ConditionFailed as gone:
            if gone.old is not None:
                raise

    def note_stuck(self, name: str, step: StepRow, ranks: Iterable[int], need: str, *, now: int) -> None:
        """Note tasks that no live worker of a group can run, for the one that will come."""
        key = keys.unmatched(name, step.job_id, step.run, step.index)
        text = keys.step_reference((step.job_id, step.run, step.index))
        update = Update(key).set(step=text, need=need, ttl=_ttl(now))
        update.add(ranks={str(rank) for rank in ranks})
        try:
            self._table.update(update.if_smaller("ranks", _MOST_STUCK))
        except ConditionFailed as full:
            if full.old is None:
                raise

    def stuck(self, name: str) -> Iterator[Stuck]:
        partition = keys.partition_of(keys.group(name))
        for item in self._table.query(partition, prefix=keys.UNMATCHED, consistent=True):
            ranks = {int(rank) for rank in item.get("ranks", ())}
            if ranks:
                yield Stuck(name, keys.parse_step_reference(item["step"]), item["need"], ranks)

    def not_stuck(self, noted: Stuck) -> None:
        update = Update(keys.unmatched(noted.group, *noted.step))
        self._table.update(update.delete("ranks", {str(rank) for rank in noted.ranks}))


def _ttl(now: int) -> int:
    return now // 1000 + KEEP_WORKER_SECONDS
