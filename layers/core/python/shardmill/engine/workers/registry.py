"""Workers: registration, heartbeats, and what others decide of them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.engine.errors import (
    Conflict,
    ForeignTask,
    GroupFixed,
    GroupNotFound,
    StaleSession,
    WorkerAlive,
    WorkerNotFound,
)
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.groups.totals import suspend_after_failures
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tasks import completion
from shardmill.engine.tasks.interruption import end_overdue
from shardmill.engine.tasks.unmatched import wake_stuck
from shardmill.model.actor import Actor
from shardmill.model.blocks import Shard, block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import HeldTask, Registration
from shardmill.store.rows import StepRow, WorkerRow
from shardmill.store.workers import NameTaken, Tally

BEATS_PER_LEASE = 3
MOST_PROGRESS_BYTES = 50_000

StepKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Beat:
    worker: WorkerRow
    drop: list[str]
    followed: list[str]


@dataclass(slots=True)
class _Place:
    """A task that a worker says it holds, and what its row says."""

    task: HeldTask
    key: StepKey
    rank: int
    shard: Shard | None = None

    def foreign_to(self, worker_id: str) -> bool:
        """Whether the worker never had it; an attempt that is over it may have had."""
        shard = self.shard
        return shard is not None and shard.attempt <= self.task.attempt and not self.held_by(worker_id)

    def runs_for(self, worker: WorkerRow) -> bool:
        shard = self.shard
        running = shard is not None and shard.state is TaskState.RUNNING
        return running and self.held_by(worker.id) and shard is not None and shard.worker == worker.reference

    def held_by(self, worker_id: str) -> bool:
        shard = self.shard
        return shard is not None and shard.attempt == self.task.attempt and shard.worker_id == worker_id


def worker_id(name: str) -> str:
    """A worker of the same name takes its identity back; eight characters keep a block's row small."""
    return base64.b32encode(hashlib.sha256(name.encode()).digest())[:8].decode().lower()


def register(mill: Mill, registration: Registration, now: int) -> WorkerRow:
    rows = group_rows(mill, registration.groups, now)
    missing = set(registration.groups) - set(rows)
    if missing:
        raise GroupNotFound(
            f"there is no worker group {', '.join(map(repr, sorted(missing)))}; make it first"
        )
    served = [row.name for row in rows.values() if row.kind == "lambda"]
    if served:
        raise GroupFixed(f"group {served[0]!r} is served by Lambda; a worker of your own needs another group")
    row = WorkerRow(
        id=worker_id(registration.name),
        name=registration.name,
        session=0,
        registration=registration.model_dump(mode="json", exclude_none=True),
        groups=list(dict.fromkeys(registration.groups)),
    )
    try:
        worker = mill.workers.register(row, now=now)
    except NameTaken as error:
        raise Conflict(f"worker {registration.name!r}: {error.__doc__}") from error
    _appears(mill, worker, now)
    return worker


def _appears(mill: Mill, worker: WorkerRow, now: int) -> None:
    """A worker takes tasks from now on: those that waited for one like it are sent."""
    for group in worker.groups:
        mill.recent_workers.discard(group)
    if worker.takes_tasks:
        wake_stuck(mill, worker, now)


def heartbeat_seconds(mill: Mill, worker: WorkerRow, now: int) -> int:
    leases = [group.lease_seconds for group in group_rows(mill, worker.groups, now).values()]
    return max(1, min(leases, default=60) // BEATS_PER_LEASE)


def read(mill: Mill, worker_id: str) -> WorkerRow:
    worker = mill.workers.get(worker_id)
    if not worker:
        raise _unknown(worker_id)
    return worker


def _unknown(worker_id: str) -> WorkerNotFound:
    return WorkerNotFound(f"there is no worker {worker_id!r}; register with POST /v1/workers")


def suspend(mill: Mill, worker_id: str, actor: Actor, reason: str) -> WorkerRow:
    """Have a worker take no more tasks until it is resumed; what it holds it may finish."""
    return _decide(mill, worker_id, suspended=True, notes=_notes("suspended", actor, reason))


def drain(mill: Mill, worker_id: str, actor: Actor, reason: str) -> WorkerRow:
    """Have a worker finish what it holds, take nothing more, and leave."""
    return _decide(mill, worker_id, drain=True, notes=_notes("drained", actor, reason))


def resume(mill: Mill, worker_id: str, now: int) -> WorkerRow:
    """Let a worker take tasks again, whoever or whatever stopped it."""
    changes = dict.fromkeys(("suspended", "tired", "drain", "failures", "notes"))
    worker = _decide(mill, worker_id, **changes)
    _appears(mill, worker, now)
    return worker


def _decide(mill: Mill, worker_id: str, **changes: object) -> WorkerRow:
    worker = mill.workers.change(worker_id, **changes)
    if not worker:
        raise _unknown(worker_id)
    for group in worker.groups:
        mill.recent_workers.discard(group)
    return worker


def _notes(what: str, actor: Actor, reason: str) -> str:
    return f"{what} by {actor.name}" + (f": {reason}" if reason else "")


def forget(mill: Mill, worker_id: str, now: int, *, force: bool) -> None:
    """Remove a worker that is gone; its tasks are taken by others after the lease, if it held any."""
    worker = read(mill, worker_id)
    alive = not worker.offline and is_seen(mill, worker, now)
    if alive and not force:
        raise WorkerAlive(
            f"worker {worker.name!r} is alive; drain it first, or force it: it will be told to stop"
        )
    mill.workers.delete(worker)


def is_seen(mill: Mill, worker: WorkerRow, now: int) -> bool:
    """Whether a worker has missed less than three heartbeats."""
    return now - worker.seen <= heartbeat_seconds(mill, worker, now) * BEATS_PER_LEASE * 1000


def heartbeat(
    mill: Mill,
    worker_id: str,
    session: int,
    held: Sequence[HeldTask],
    *,
    offline: bool,
    now: int,
    tally: Tally | None = None,
) -> Beat:
    """Say that a worker lives and what it holds; the answer names what it should let go."""
    places = list(_places(mill, held))
    steps = mill.jobs.steps_by_key({place.key for place in places})
    _look_up(mill, worker_id, places, steps, now)
    foreign = [place.task.task_id for place in places if place.foreign_to(worker_id)]
    if foreign:
        raise ForeignTask(f"worker {worker_id!r} never held {', '.join(foreign[:10])}; nothing was noted")
    worker = mill.workers.heartbeat(
        worker_id,
        session,
        work=[place.task.task_id for place in places if place.held_by(worker_id)],
        progress=_progress(place.task for place in places if place.held_by(worker_id)),
        tally=tally or Tally(),
        now=now,
        offline=offline,
    )
    if not worker:
        known = read(mill, worker_id)
        raise StaleSession(
            f"worker {known.name!r} was registered again since (session {known.session}, not {session}); "
            "stop, or register again"
        )
    if offline and not held:
        mill.workers.leave_groups(worker)
    drop = [task.task_id for task in held if not parse_task_id(task.task_id)]
    drop += _to_drop(mill, worker, places, steps)
    followed = sorted(worker.followed & worker.work) if worker.followed_until > now else []
    if len(followed) < len(worker.followed):
        mill.workers.unfollow(worker.id, set(worker.followed) - set(followed))
    return Beat(suspend_after_failures(mill, worker, tally.longest if tally else 0), drop, followed)


def _progress(held: Iterable[HeldTask]) -> dict[str, Any]:
    """What tasks tell of themselves, as far as it fits into a worker's row."""
    told: dict[str, Any] = {}
    room = MOST_PROGRESS_BYTES
    for task in held:
        if task.progress:
            words = task.progress.model_dump(mode="json", exclude_none=True)
            room -= len(task.task_id) + len(json.dumps(words))
            if room < 0:
                break
            told[task.task_id] = words
    return told


def _places(mill: Mill, held: Iterable[HeldTask]) -> Iterator[_Place]:
    for task in held:
        place = parse_task_id(task.task_id)
        if place:
            job_id, index, rank = place
            yield _Place(task, (job_id, task.run or _current_run(mill, job_id), index), rank)


def _look_up(
    mill: Mill, worker_id: str, places: Iterable[_Place], steps: dict[StepKey, StepRow], now: int
) -> None:
    """Read the shards of the tasks, and end the attempts among them whose time is over."""
    by_step: dict[StepKey, list[_Place]] = {}
    for place in places:
        step = steps.get(place.key)
        if step and place.rank < step.total:
            by_step.setdefault(place.key, []).append(place)
    for key, inside in by_step.items():
        step = steps[key]
        blocks = mill.shards.blocks(step, {block_of(place.rank) for place in inside})
        for place in inside:
            place.shard = blocks[block_of(place.rank)][place.rank]
        for number, block in blocks.items():
            mine = [p for p in inside if block_of(p.rank) == number and p.held_by(worker_id)]
            overdue = end_overdue(mill, step, block, [place.rank for place in mine], now)
            for place in mine:
                if place.rank in overdue:
                    place.shard = None


def _to_drop(
    mill: Mill, worker: WorkerRow, places: Iterable[_Place], steps: dict[StepKey, StepRow]
) -> Iterator[str]:
    """The tasks that this worker holds no longer, or whose step was told to stop."""
    woken: set[StepKey] = set()
    for place in places:
        step = steps.get(place.key)
        if step and (step.opened or step.let_finish) and not step.stopping:
            if place.runs_for(worker):
                continue
        elif step and place.key not in woken:
            woken.add(place.key)
            mill.recent_steps.discard(place.key)  # what it hears of now it does not lease by an older look
            completion.wake(mill, step)  # it may have been told to stop before it had a token
        yield place.task.task_id


def _current_run(mill: Mill, job_id: str) -> int:
    job = mill.jobs.get(job_id)
    return job.run if job else 0
