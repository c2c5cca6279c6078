"""Workers: registration, heartbeats, and the operations suspend, resume, drain and delete."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.engine.errors import (
    Conflict,
    ForeignTask,
    GroupFixed,
    GroupNotFound,
    StaleSession,
    WorkerAlive,
)
from shardmill.engine.groups import lanes
from shardmill.engine.groups.groups import binding_times
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.groups.totals import suspend_after_failures
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tasks import completion
from shardmill.engine.tasks.interruption import end_overdue
from shardmill.engine.tasks.unmatched import send_unmatched
from shardmill.engine.workers.ownership import check_registration, unknown_worker
from shardmill.model.actor import Actor
from shardmill.model.blocks import Shard, block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import MAX_RUNNING, HeldTask, Registration
from shardmill.store.rows import StepRow, WorkerRow
from shardmill.store.workers import NameTaken, Tally

BEATS_PER_LEASE = 3
MAX_PROGRESS_BYTES = 50_000

StepKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    worker: WorkerRow
    drop: list[str]
    followed: list[str]


@dataclass(slots=True)
class _ClaimedTask:
    """A task that a worker claims to hold, and its shard, if it exists."""

    task: HeldTask
    key: StepKey
    rank: int
    shard: Shard | None = None

    def foreign_to(self, worker_id: str) -> bool:
        """Whether the worker never held the attempt. An earlier attempt counts as held."""
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
    """The id of a worker, derived from its name; eight characters keep the rows of blocks small."""
    return base64.b32encode(hashlib.sha256(name.encode()).digest())[:8].decode().lower()


def register(
    mill: Mill,
    registration: Registration,
    now: int,
    *,
    source_ip: str = "",
    actor: Actor | None = None,
    profile: Mapping[str, Any] | None = None,
    same_session: bool = False,
) -> WorkerRow:
    """Register a worker; `source_ip`: where its request came from. `actor`: None if it uses AWS directly.

    `profile`: the description that a client of the AWE protocol sends. `same_session`: its process is known,
    and keeps its tasks.
    """
    known = mill.workers.get(worker_id(registration.name))
    if actor:
        alive = known is not None and not known.offline and is_alive(mill, known, now)
        check_registration(mill, known, registration.groups, actor, now, alive=alive)
    rows = group_rows(mill, registration.groups, now)
    missing = set(registration.groups) - set(rows)
    if missing:
        raise GroupNotFound(
            f"there is no worker group {', '.join(map(repr, sorted(missing)))}; create it first"
        )
    served = [row.name for row in rows.values() if row.kind == "lambda"]
    if served:
        raise GroupFixed(f"group {served[0]!r} is served by Lambda; register the worker with another group")
    bound = binding_times(registration.groups, known.bound if known else {}, now)
    row = WorkerRow(
        id=worker_id(registration.name),
        name=registration.name,
        session=0,
        registration=registration.model_dump(mode="json", exclude_none=True),
        groups=list(bound),
        bound=bound,
        source_ip=source_ip,
        profile=profile or {},
        owner=actor.name if actor else "",
        owner_token=actor.token_id if actor else "",
    )
    try:
        worker = mill.workers.register(row, now=now, same_session=same_session)
    except NameTaken as error:
        raise Conflict(f"worker {registration.name!r}: {error.__doc__}") from error
    mill.worker_owners.discard(worker.id)
    _announce(mill, worker, now)
    return worker


def _announce(mill: Mill, worker: WorkerRow, now: int) -> None:
    """Send the unmatched tasks that a worker can run, once it takes tasks."""
    mill.forget_workers(worker.groups)
    if worker.takes_tasks:
        send_unmatched(mill, worker, now)


def heartbeat_seconds(mill: Mill, worker: WorkerRow, now: int) -> int:
    leases = [group.lease_seconds for group in group_rows(mill, worker.groups, now).values()]
    return max(1, min(leases, default=60) // BEATS_PER_LEASE)


def read(mill: Mill, worker_id: str) -> WorkerRow:
    worker = mill.workers.get(worker_id)
    if not worker:
        raise unknown_worker(worker_id)
    return worker


def suspend(mill: Mill, worker_id: str, actor: Actor, reason: str) -> WorkerRow:
    """Stop leasing tasks to a worker until it is resumed. It may finish the tasks that it holds."""
    return _change(mill, worker_id, suspended=True, notes=_notes("suspended", actor, reason))


def drain(mill: Mill, worker_id: str, actor: Actor, reason: str) -> WorkerRow:
    """Have a worker finish the tasks that it holds, then deregister."""
    return _change(mill, worker_id, drain=True, notes=_notes("drained", actor, reason))


def resume(mill: Mill, worker_id: str, now: int) -> WorkerRow:
    """Let a worker take tasks again after it was suspended, manually or for failures, or drained."""
    changes = dict.fromkeys(("suspended", "tired", "drain", "failures", "failing", "failing_since", "notes"))
    worker = _change(mill, worker_id, **changes)
    _announce(mill, worker, now)
    return worker


def _change(mill: Mill, worker_id: str, **changes: object) -> WorkerRow:
    worker = mill.workers.change(worker_id, **changes)
    if not worker:
        raise unknown_worker(worker_id)
    mill.forget_workers(worker.groups)
    return worker


def _notes(what: str, actor: Actor, reason: str) -> str:
    return f"{what} by {actor.name}" + (f": {reason}" if reason else "")


def delete(mill: Mill, worker_id: str, now: int, *, force: bool) -> None:
    """Delete a worker. Other workers get its tasks when their leases expire."""
    worker = read(mill, worker_id)
    alive = not worker.offline and is_alive(mill, worker, now)
    if alive and not force:
        raise WorkerAlive(
            f"worker {worker.name!r} is alive; drain it first, or force it: its process stops at the next "
            "heartbeat"
        )
    mill.workers.delete(worker)


def is_alive(mill: Mill, worker: WorkerRow, now: int) -> bool:
    """Whether a worker sent a heartbeat within the last BEATS_PER_LEASE intervals."""
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
    source_ip: str = "",
) -> Heartbeat:
    """Record a heartbeat and the tasks that a worker holds. Returns the tasks to drop and to follow."""
    claims = list(_claimed_tasks(mill, held))
    steps = mill.jobs.steps_by_key({claim.key for claim in claims})
    _read_shards(mill, worker_id, claims, steps, now)
    foreign = [claim.task.task_id for claim in claims if claim.foreign_to(worker_id)]
    if foreign:
        raise ForeignTask(
            f"worker {worker_id!r} never held {', '.join(foreign[:10])}; the heartbeat was not recorded"
        )
    worker = mill.workers.heartbeat(
        worker_id,
        session,
        work=[claim.task.task_id for claim in claims if claim.held_by(worker_id)],
        running=[claim.task.task_id for claim in claims if not claim.task.waiting][:MAX_RUNNING],
        progress=_progress(claim.task for claim in claims if claim.held_by(worker_id)),
        tally=tally or Tally(),
        now=now,
        offline=offline,
        source_ip=source_ip,
    )
    if not worker:
        known = read(mill, worker_id)
        raise StaleSession(
            f"worker {known.name!r} was registered again (session {known.session}, not {session}); "
            "stop this process, or register it again"
        )
    if offline and not held:
        mill.workers.leave_groups(worker)
    lanes.remove_unused(mill, worker.groups, now)
    drop = [task.task_id for task in held if not parse_task_id(task.task_id)]
    drop += _to_drop(mill, worker, claims, steps)
    followed = sorted(worker.followed & worker.work) if worker.followed_until > now else []
    if len(followed) < len(worker.followed):
        mill.workers.remove_members(worker.id, "followed", set(worker.followed) - set(followed))
    return Heartbeat(suspend_after_failures(mill, worker, tally or Tally(), now), drop, followed)


def _progress(held: Iterable[HeldTask]) -> dict[str, Any]:
    """The progress of tasks by their ids, as far as it fits into a worker's row."""
    progress: dict[str, Any] = {}
    room = MAX_PROGRESS_BYTES
    for task in held:
        if task.progress:
            document = task.progress.model_dump(mode="json", exclude_none=True)
            room -= len(task.task_id) + len(json.dumps(document))
            if room < 0:
                break
            progress[task.task_id] = document
    return progress


def _claimed_tasks(mill: Mill, held: Iterable[HeldTask]) -> Iterator[_ClaimedTask]:
    for task in held:
        parsed = parse_task_id(task.task_id)
        if parsed:
            job_id, index, rank = parsed
            yield _ClaimedTask(task, (job_id, task.run or _current_run(mill, job_id), index), rank)


def _read_shards(
    mill: Mill, worker_id: str, claims: Iterable[_ClaimedTask], steps: dict[StepKey, StepRow], now: int
) -> None:
    """Read the shards of the tasks, and end the attempts that exceeded their timeout."""
    by_step: dict[StepKey, list[_ClaimedTask]] = {}
    for claim in claims:
        step = steps.get(claim.key)
        if step and claim.rank < step.total:
            by_step.setdefault(claim.key, []).append(claim)
    for key, inside in by_step.items():
        step = steps[key]
        blocks = mill.shards.blocks(step, {block_of(claim.rank) for claim in inside})
        for claim in inside:
            claim.shard = blocks[block_of(claim.rank)][claim.rank]
        for number, block in blocks.items():
            mine = [each for each in inside if block_of(each.rank) == number and each.held_by(worker_id)]
            overdue = end_overdue(mill, step, block, [claim.rank for claim in mine], now)
            for claim in mine:
                if claim.rank in overdue:
                    claim.shard = None


def _to_drop(
    mill: Mill, worker: WorkerRow, claims: Iterable[_ClaimedTask], steps: dict[StepKey, StepRow]
) -> Iterator[str]:
    """The tasks that the worker no longer holds, or whose step is stopping."""
    woken: set[StepKey] = set()
    for claim in claims:
        step = steps.get(claim.key)
        if step and (step.opened or step.let_finish) and not step.stopping:
            if claim.runs_for(worker):
                continue
        elif step and claim.key not in woken:
            woken.add(claim.key)
            mill.recent_steps.discard(claim.key)  # a cached row would let the worker lease its tasks again
            completion.wake(mill, step)  # the step may have been stopped before it had a token
        yield claim.task.task_id


def _current_run(mill: Mill, job_id: str) -> int:
    job = mill.jobs.get(job_id)
    return job.run if job else 0
