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
from shardmill.aws.sealing import Sealer
from shardmill.aws.settings import Settings
from shardmill.store import keys
from shardmill.store.access.tokens import Tokens
from shardmill.store.access.usage import Usage
from shardmill.store.awe.jobs import AweJobs
from shardmill.store.awe.nodes import Nodes
from shardmill.store.awe.server import ServerIdentities
from shardmill.store.child_starts import ChildStarts
from shardmill.store.definitions import Definition, Definitions
from shardmill.store.due.deadlines import Deadlines
from shardmill.store.due.watches import Watches
from shardmill.store.groups import Groups
from shardmill.store.job_numbers import JobNumbers
from shardmill.store.jobs import Jobs
from shardmill.store.operations.dead_letters import DeadLetters
from shardmill.store.rows import GroupRow, StepRow, WorkerRow
from shardmill.store.runs import Runs
from shardmill.store.schedules import Schedules
from shardmill.store.secrets.data_tokens import DataTokens
from shardmill.store.shards import Shards
from shardmill.store.slots import Slots
from shardmill.store.table import Table
from shardmill.store.workers import Workers

RECHECK_MS = 60_000
"""How long the tick waits before it checks a Job again."""

AHEAD_MS = 90_000
"""How far the tick looks ahead for schedules: a minute, and half a minute because ticks come irregularly."""

STEP_CACHE_MS = 2_000
GROUP_CACHE_MS = 5_000
MIXED_GROUP_CACHE_MS = 1_000
"""For groups with several priorities in use, to which priorities are added often."""

WORKER_CACHE_MS = 3_000
EMPTY_QUEUE_MS = 1_000
OWNER_CACHE_MS = 60_000
DEFINITION_CACHE_MS = 60_000
_MAX_CACHED = 2_000
_MAX_DEFINITIONS = 20

MembersPage = tuple[str, str, str]
"""A group, a program, and the id of the worker before a page of the group's workers that run the program."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, eq=False, repr=False)
class Mill:
    settings: Settings
    usage: Usage
    definitions: Definitions
    jobs: Jobs
    job_numbers: JobNumbers
    data_tokens: DataTokens
    sealer: Sealer
    deadlines: Deadlines
    watches: Watches
    shards: Shards
    workers: Workers
    groups: Groups
    slots: Slots
    schedules: Schedules
    runs: Runs
    child_starts: ChildStarts
    dead_letters: DeadLetters
    tokens: Tokens
    awe_servers: ServerIdentities
    awe_jobs: AweJobs
    nodes: Nodes
    queues: Queues
    machines: Machines
    bus: Bus
    files: Files
    recent_steps: TtlCache[tuple[str, int, int], StepRow]
    recent_groups: TtlCache[str, GroupRow]
    recent_workers: TtlCache[MembersPage, tuple[Sequence[WorkerRow], str]]
    worker_owners: TtlCache[str, tuple[str, Sequence[str]]]
    """The token that registered a worker, and its groups."""
    empty_queues: TtlCache[str, bool]
    """The queues without a message a moment ago."""
    recent_definitions: TtlCache[tuple[str, int], Definition]
    """By job name and version, which never changes."""

    @classmethod
    def connect(cls, settings: Settings) -> Mill:
        table = Table(clients.dynamodb(), settings.table)
        usage = Usage(table, settings.limits)
        return cls(
            settings=settings,
            usage=usage,
            definitions=Definitions(table, usage),
            jobs=Jobs(table, usage),
            job_numbers=JobNumbers(table),
            data_tokens=DataTokens(table),
            sealer=Sealer(settings),
            deadlines=Deadlines(table),
            watches=Watches(table),
            shards=Shards(table),
            workers=Workers(table),
            groups=Groups(table),
            slots=Slots(table),
            schedules=Schedules(table, usage),
            runs=Runs(table),
            child_starts=ChildStarts(table),
            dead_letters=DeadLetters(table),
            tokens=Tokens(table),
            awe_servers=ServerIdentities(table),
            awe_jobs=AweJobs(table),
            nodes=Nodes(table),
            queues=Queues(clients.sqs(), settings.dead_queue),
            machines=Machines(
                clients.stepfunctions(), settings.job_machine, settings.step_machine, settings.machine_alias
            ),
            bus=Bus(clients.events(), settings.bus),
            files=Files(clients.s3(), settings.bucket),
            recent_steps=TtlCache(STEP_CACHE_MS),
            recent_groups=recent_groups(),
            recent_workers=TtlCache(WORKER_CACHE_MS),
            worker_owners=TtlCache(OWNER_CACHE_MS),
            empty_queues=TtlCache(EMPTY_QUEUE_MS),
            recent_definitions=TtlCache(DEFINITION_CACHE_MS, size=_MAX_DEFINITIONS),
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

    def __init__(
        self, keep_ms: int, most_ms: Callable[[V], int] | None = None, *, size: int = _MAX_CACHED
    ) -> None:
        """`most_ms`: a shorter time for some rows; `size`: of how many rows all are dropped."""
        self._keep_ms = keep_ms
        self._size = size
        self._most_ms = most_ms
        self._rows: dict[K, tuple[int, V]] = {}

    def get(self, wanted: Iterable[K], read: Callable[[list[K]], Mapping[K, V]], now: int) -> dict[K, V]:
        """Return the existing rows of `wanted`; missing and expired ones are read in one call.

        Another thread may clear the cache meanwhile, so the result is built from local values.
        """
        known: dict[K, V] = {}
        missing: list[K] = []
        for key in set(wanted):
            cached = self._rows.get(key)
            if cached and now - cached[0] <= self._kept_for(cached[1]):
                known[key] = cached[1]
            else:
                missing.append(key)
        if missing:
            found = dict(read(missing))
            if len(self._rows) >= self._size:
                self._rows.clear()
            self._rows.update({key: (now, row) for key, row in found.items()})
            known |= found
        return known

    def _kept_for(self, row: V) -> int:
        return min(self._keep_ms, self._most_ms(row)) if self._most_ms else self._keep_ms

    def replace(self, key: K, old: V, new: V) -> None:
        """Replace a cached row by a newer version of it, unless it was read again since."""
        kept = self._rows.get(key)
        if kept and kept[1] is old:
            self._rows[key] = (kept[0], new)

    def put(self, key: K, row: V, now: int) -> None:
        self.discard(key)
        self.get([key], lambda _: {key: row}, now)

    def discard(self, key: K) -> None:
        self._rows.pop(key, None)

    def discard_all(self, outdated: Callable[[K], bool]) -> None:
        for key in [key for key in list(self._rows) if outdated(key)]:
            self.discard(key)


def recent_groups() -> TtlCache[str, GroupRow]:
    return TtlCache(
        GROUP_CACHE_MS, lambda row: MIXED_GROUP_CACHE_MS if row.lane_table.mixed else GROUP_CACHE_MS
    )


@cache
def mill() -> Mill:
    """Return the deployment that this process belongs to."""
    return Mill.connect(Settings.from_environment())
