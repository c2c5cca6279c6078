"""The resources of a deployment: stores, queues, state machines, event bus and files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from shardmill.aws import clients
from shardmill.aws.bus import Bus
from shardmill.aws.files import Files
from shardmill.aws.machines import Machines
from shardmill.aws.queues import Queues
from shardmill.aws.settings import Settings
from shardmill.store import keys
from shardmill.store.definitions import Definitions
from shardmill.store.due.deadlines import Deadlines
from shardmill.store.due.watches import Watches
from shardmill.store.groups import Groups
from shardmill.store.job_numbers import JobNumbers
from shardmill.store.jobs import Jobs
from shardmill.store.rows import GroupRow, StepRow, WorkerRow
from shardmill.store.runs import Runs
from shardmill.store.schedules import Schedules
from shardmill.store.shards import Shards
from shardmill.store.slots import Slots
from shardmill.store.table import Table
from shardmill.store.workers import Workers

RECHECK_MS = 60_000
"""How long the tick waits before it checks a Job again."""

STEP_CACHE_MS = 2_000
GROUP_CACHE_MS = 5_000
WORKER_CACHE_MS = 3_000
_MAX_CACHED = 2_000

MembersPage = tuple[str, str, str]
"""A group, a program, and the id of the worker before a page of the group's workers that run the program."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Mill:
    settings: Settings
    definitions: Definitions
    jobs: Jobs
    job_numbers: JobNumbers
    deadlines: Deadlines
    watches: Watches
    shards: Shards
    workers: Workers
    groups: Groups
    slots: Slots
    schedules: Schedules
    runs: Runs
    queues: Queues
    machines: Machines
    bus: Bus
    files: Files
    recent_steps: TtlCache[tuple[str, int, int], StepRow]
    recent_groups: TtlCache[str, GroupRow]
    recent_workers: TtlCache[MembersPage, tuple[Sequence[WorkerRow], str]]

    @classmethod
    def connect(cls, settings: Settings) -> Mill:
        table = Table(clients.dynamodb(), settings.table)
        return cls(
            settings=settings,
            definitions=Definitions(table),
            jobs=Jobs(table),
            job_numbers=JobNumbers(table),
            deadlines=Deadlines(table),
            watches=Watches(table),
            shards=Shards(table),
            workers=Workers(table),
            groups=Groups(table),
            slots=Slots(table),
            schedules=Schedules(table),
            runs=Runs(table),
            queues=Queues(clients.sqs(), settings.dead_queue),
            machines=Machines(clients.stepfunctions(), settings.job_machine, settings.step_machine),
            bus=Bus(clients.events(), settings.bus),
            files=Files(clients.s3(), settings.bucket),
            recent_steps=TtlCache(STEP_CACHE_MS),
            recent_groups=TtlCache(GROUP_CACHE_MS),
            recent_workers=TtlCache(WORKER_CACHE_MS),
        )

    def forget_workers(self, groups: Iterable[str]) -> None:
        """Read the workers of groups again when they are needed next."""
        names = set(groups)
        self.recent_workers.discard_all(lambda page: page[0] in names)

    def start_step(self, step: StepRow, opened: Mapping[str, Any] | None = None) -> None:
        """Start the execution of a step. `opened`: the result of its first state, if it was opened ahead."""
        self.machines.start_step(step.job_id, step.run, step.index, keys.step(*step.key), opened)


class TtlCache(Generic[K, V]):
    """Rows read recently, shared by the threads of a process."""

    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._rows: dict[K, tuple[int, V]] = {}

    def get(self, wanted: Iterable[K], read: Callable[[list[K]], Mapping[K, V]], now: int) -> dict[K, V]:
        """Return the rows of `wanted` that exist, reading those that are missing or expired in one call.

        Another thread may clear the cache meanwhile, so the result is built from local values.
        """
        known: dict[K, V] = {}
        missing: list[K] = []
        for key in set(wanted):
            cached = self._rows.get(key)
            if cached and now - cached[0] <= self._keep_ms:
                known[key] = cached[1]
            else:
                missing.append(key)
        if missing:
            found = dict(read(missing))
            if len(self._rows) > _MAX_CACHED:
                self._rows.clear()
            self._rows.update({key: (now, row) for key, row in found.items()})
            known |= found
        return known

    def replace(self, key: K, old: V, new: V) -> None:
        """Replace a cached row by a newer version of it, unless it was read again since."""
        kept = self._rows.get(key)
        if kept and kept[1] is old:
            self._rows[key] = (kept[0], new)

    def discard(self, key: K) -> None:
        self._rows.pop(key, None)

    def discard_all(self, outdated: Callable[[K], bool]) -> None:
        for key in [key for key in list(self._rows) if outdated(key)]:
            self.discard(key)


@cache
def mill() -> Mill:
    """Return the deployment that this process belongs to."""
    return Mill.connect(Settings.from_environment())
