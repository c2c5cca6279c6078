"""Workers: registration and heartbeats."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardmill.engine import settle
from shardmill.engine.enqueue import group_rows
from shardmill.engine.errors import Conflict, GroupNotFound, StaleSession, WorkerNotFound
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id, task_id
from shardmill.model.blocks import block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import HeldTask, Registration
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import NameTaken

BEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Beat:
    worker: WorkerRow
    drop: list[str]


def worker_id(name: str) -> str:
    """A worker of the same name takes its identity back; eight characters keep a block's row small."""
    return base64.b32encode(hashlib.sha256(name.encode()).digest())[:8].decode().lower()


def register(mill: Mill, registration: Registration, now: int) -> WorkerRow:
    missing = set(registration.groups) - set(group_rows(mill, registration.groups, now))
    if missing:
        raise GroupNotFound(
            f"there is no worker group {', '.join(map(repr, sorted(missing)))}; make it first"
        )
    row = WorkerRow(
        id=worker_id(registration.name),
        name=registration.name,
        session=0,
        registration=registration.model_dump(mode="json", exclude_none=True),
        groups=list(registration.groups),
        seen=now,
    )
    try:
        return mill.workers.register(row, now=now)
    except NameTaken as error:
        raise Conflict(f"worker {registration.name!r}: {error.__doc__}") from error


def heartbeat_seconds(mill: Mill, worker: WorkerRow, now: int) -> int:
    leases = [group.lease_seconds for group in group_rows(mill, worker.groups, now).values()]
    return max(1, min(leases, default=60) // BEATS_PER_LEASE)


def read(mill: Mill, worker_id: str) -> WorkerRow:
    worker = mill.workers.get(worker_id)
    if not worker:
        raise WorkerNotFound(f"there is no worker {worker_id!r}; register with POST /v1/workers")
    return worker


def heartbeat(
    mill: Mill, worker_id: str, session: int, held: Sequence[HeldTask], *, offline: bool, now: int
) -> Beat:
    """Say that a worker lives and what it holds; the answer names what it should let go."""
    worker = mill.workers.beat(
        worker_id, session, work=[task.task_id for task in held], now=now, offline=offline
    )
    if not worker:
        known = read(mill, worker_id)
        raise StaleSession(
            f"worker {known.name!r} was registered again since (session {known.session}, not {session}); "
            "stop, or register again"
        )
    return Beat(worker, drop=_to_drop(mill, worker, held))


def _to_drop(mill: Mill, worker: WorkerRow, held: Iterable[HeldTask]) -> list[str]:
    """The tasks that this worker holds no longer, or whose step was told to stop."""
    by_step: dict[tuple[str, int, int], list[tuple[HeldTask, int]]] = {}
    for task in held:
        place = parse_task_id(task.task_id)
        if place:
            job_id, index, rank = place
            by_step.setdefault((job_id, task.run or _current_run(mill, job_id), index), []).append(
                (task, rank)
            )
    steps = mill.jobs.steps_by_key(by_step)
    drop: list[str] = []
    for key, tasks in by_step.items():
        step = steps.get(key)
        if not step or not step.opened or step.stopping:
            drop += [task.task_id for task, _ in tasks]
            if step:
                settle.wake(mill, step)  # it may have been told to stop before it had a token
            continue
        inside = [(task, rank) for task, rank in tasks if rank < step.total]
        blocks = mill.shards.blocks(step, {block_of(rank) for _, rank in inside})
        for task, rank in inside:
            shard = blocks[block_of(rank)][rank]
            holds = shard.state is TaskState.RUNNING and shard.attempt == task.attempt
            if not holds or shard.worker != worker.reference:
                drop.append(task_id(step, rank))
    return drop


def _current_run(mill: Mill, job_id: str) -> int:
    job = mill.jobs.get(job_id)
    return job.run if job else 0
