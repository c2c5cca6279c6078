"""Workers, their membership in groups, and their counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from shardmill.store import group_keys, indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.rows import WorkerRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

KEEP_WORKER_SECONDS = 30 * 86400
MAX_FAILING = 20
"""How many tasks of a series of failures a worker's row names; more are only counted."""
MAX_FOLLOWED = 100
"""Maximum tasks of a worker whose logs are uploaded while they run; other logs are uploaded at the end."""
MEMBERS_PAGE = 25


class NameTaken(Exception):
    """Another worker's name results in the same id; choose another name."""


@dataclass(frozen=True, slots=True)
class Failures:
    """A series of failures without a success: their number, and tasks that failed, with their runs."""

    count: int = 0
    tasks: frozenset[str] = frozenset()

    def __add__(self, later: Failures) -> Failures:
        room = MAX_FAILING - len(self.tasks)
        added = sorted(later.tasks - self.tasks)[:room]
        return Failures(self.count + later.count, self.tasks.union(added))


NO_FAILURES = Failures()


@dataclass(slots=True)
class Tally:
    """The work of a worker since its row was last updated.

    `failures` counts failures since its last success, `before` failures before its first success in this
    tally, and `longest` is the longest series of failures without a success.
    """

    checkout: int = 0
    completed: int = 0
    failed: int = 0
    compute_ms: int = 0
    failures: Failures = NO_FAILURES
    before: Failures = NO_FAILURES
    longest: Failures = NO_FAILURES
    succeeded: bool = False
    skip: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)

    def success(self, task_id: str, span: int) -> None:
        self.completed += 1
        self.compute_ms += span
        if not self.succeeded:
            self.before = self.failures
        self.failures, self.succeeded = NO_FAILURES, True
        self.done.add(task_id)

    def failure(self, task_id: str, run: int, span: int) -> None:
        self.failed += 1
        self.compute_ms += span
        self.failures += Failures(1, frozenset({failing_task(task_id, run)}))
        self.longest = _longer(self.longest, self.failures)
        self.skip.add(task_id)
        self.done.add(task_id)

    def add(self, later: Tally) -> None:
        """Add a later tally to this one."""
        self.checkout += later.checkout
        self.completed += later.completed
        self.failed += later.failed
        self.compute_ms += later.compute_ms
        if later.succeeded and not self.succeeded:
            self.before = self.failures + later.before
        joined = self.failures + (later.before if later.succeeded else later.failures)
        self.longest = _longer(_longer(self.longest, later.longest), joined)
        self.failures = later.failures if later.succeeded else joined
        self.succeeded |= later.succeeded
        self.skip |= later.skip

    def write_to(self, update: Update, now: int) -> Update:
        amounts = {
            "checkout": self.checkout,
            "completed": self.completed,
            "failed": self.failed,
            "compute_ms": self.compute_ms,
        }
        update.add(**{name: amount for name, amount in amounts.items() if amount})
        if self.succeeded:
            update.set(failures=self.failures.count, failing=set(self.failures.tasks) or None)
            update.set(succeeded_time=now, failing_since=now if self.failures.count else None)
        elif self.failures.count:
            _add_failures(update, self.failures, now)
        if self.skip:
            update.add(skip=self.skip)
        return update


def failing_task(task_id: str, run: int) -> str:
    return f"{task_id}.{run}"


def _longer(first: Failures, second: Failures) -> Failures:
    return second if second.count > first.count else first


def _add_failures(update: Update, failures: Failures, now: int) -> Update:
    update.add(failures=failures.count, failing=set(failures.tasks))
    return update.set_once("failing_since", now)


class Workers:
    def __init__(self, table: Table) -> None:
        self._table = table

    def register(self, worker: WorkerRow, *, now: int, same_session: bool = False) -> WorkerRow:
        """Create a worker, or begin the next session of the one with that name.

        A suspension by an operator stays; one because of too many failures ends, since the process is new.
        `same_session`: the process is not new, and keeps its tasks.
        """
        update = Update(keys.worker(worker.id)).set(
            id=worker.id,
            name=worker.name,
            registration=to_json(worker.registration),
            groups=worker.groups,
            bound=to_json(worker.bound),
            source_ip=worker.source_ip or None,
            profile=to_json(worker.profile) if worker.profile else None,
            owner=worker.owner or None,
            owner_token=worker.owner_token or None,
            seen=now,
            offline=False,
            **indexes.listed(indexes.WORKERS, worker.id),
            ttl=_ttl(now),
        )
        if not same_session:
            update.remove("work", "running", "progress", "followed", "drain", "tired", "failures", "failing")
            update.remove("receipts", "failing_since", "succeeded_time")
            update.set(last_busy=now).add(session=1)
        update.set_once("create_time", now)
        try:
            item = self._table.update(update.if_new_or_equal("name", worker.name), returns="ALL_NEW")
        except ConditionFailed as taken:
            raise NameTaken from taken
        row = WorkerRow.from_item(item)
        self._table.batch_put([{**key, "id": row.id} for key in _memberships(row)])
        return row

    def heartbeat(
        self,
        worker_id: str,
        session: int,
        *,
        work: Iterable[str],
        running: Iterable[str],
        progress: Mapping[str, Any],
        tally: Tally,
        now: int,
        offline: bool,
        source_ip: str = "",
    ) -> WorkerRow | None:
        """Record a heartbeat; None if the worker is unknown or has begun another session."""
        held = set(work)
        update = Update(keys.worker(worker_id)).set(seen=now, offline=offline, ttl=_ttl(now))
        update.set(work=held or None, progress=to_json(progress) if progress else None)
        update.set(running=held.intersection(running) or None)
        if source_ip:
            update.set(source_ip=source_ip)
        if held:
            update.set(last_busy=now)
        return self._changed(tally.write_to(update, now).if_equal(session=session))

    def record(
        self,
        worker_id: str,
        tally: Tally,
        *,
        now: int,
        taken: Iterable[str] = (),
        receipts: Mapping[str, str] | None = None,
    ) -> WorkerRow | None:
        """Add a tally and the ids of leased tasks to a worker's row; None if the worker is unknown.

        `receipts`: replace the receipts in the row.
        """
        update = tally.write_to(Update(keys.worker(worker_id)).set(last_busy=now), now)
        if tally.done:
            update.delete("work", tally.done).delete("followed", tally.done)
        elif taken:
            update.add(work=set(taken))
        if receipts is not None:
            update.set(receipts=to_json(receipts))
        return self._changed(update.if_exists("name"))

    def change(self, worker_id: str, **changes: Any) -> WorkerRow | None:
        """Set attributes of a worker; None if it is unknown."""
        return self._changed(Update(keys.worker(worker_id)).set_all(changes).if_exists("name"))

    def add_failures(self, worker_id: str, failures: Failures, *, now: int) -> WorkerRow | None:
        """Add to the failures since the last success."""
        return self._changed(_add_failures(Update(keys.worker(worker_id)), failures, now).if_exists("name"))

    def suspend_after_failures(self, worker_id: str, why: str) -> WorkerRow | None:
        """Suspend a worker because of its failures, unless it is already."""
        update = Update(keys.worker(worker_id)).set(tired=why).if_exists("name")
        return self._changed(update.if_equal(tired=None))

    def remove_members(self, worker_id: str, name: str, members: set[str]) -> None:
        """Remove members of a set in a worker's row."""
        self._changed(Update(keys.worker(worker_id)).delete(name, members).if_exists("name"))

    def follow(self, worker_id: str, task_id: str, *, until: int) -> None:
        """Ask a worker to upload the log of a task while the task runs, if not too many are followed."""
        update = Update(keys.worker(worker_id)).add(followed={task_id}).set(followed_until=until)
        update.if_room_for("followed", task_id, MAX_FOLLOWED)
        self._changed(update.if_contains("work", task_id))

    def leave_groups(self, worker: WorkerRow) -> None:
        self._table.batch_delete(_memberships(worker))

    def delete(self, worker: WorkerRow) -> None:
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

    def members(
        self, group: str, app: str = group_keys.EVERY_APP, *, after: str = "", limit: int = MEMBERS_PAGE
    ) -> tuple[list[WorkerRow], str]:
        """A page of workers of a group that run a program, and the id to continue after; empty at the end.

        Memberships of workers that expired, or that registered again without the group or the program, are
        deleted.
        """
        partition = keys.partition_of(group_keys.group(group))
        start = group_keys.member(group, after, app) if after else None
        found = self._table.query(
            partition, prefix=group_keys.members_with(app), consistent=True, limit=limit, start=start
        )
        members = list(islice(found, limit))
        workers = self.by_id(item["id"] for item in members)
        valid = [
            worker
            for worker in workers.values()
            if group in worker.groups and app in (group_keys.EVERY_APP, *worker.apps)
        ]
        outdated = {item["id"] for item in members} - {worker.id for worker in valid}
        self._table.batch_delete([group_keys.member(group, worker_id, app) for worker_id in outdated])
        return valid, members[-1]["id"] if len(members) == limit else ""

    def page(self, *, after: str | None, limit: int) -> Iterator[WorkerRow]:
        start = {**keys.worker(after), **indexes.listed(indexes.WORKERS, after)} if after else None
        partition = indexes.all_of(indexes.WORKERS)
        items = indexes.listed_rows(self._table, [partition], indexes.LIST, start=start, limit=limit)
        return map(WorkerRow.from_item, items)


def _memberships(worker: WorkerRow) -> list[keys.Key]:
    return [
        group_keys.member(group, worker.id, app)
        for group in worker.groups
        for app in dict.fromkeys((group_keys.EVERY_APP, *worker.apps))
    ]


def _ttl(now: int) -> int:
    return now // 1000 + KEEP_WORKER_SECONDS
