"""Backfill a schedule: run one Job for each past time in a range, a limited number in parallel.

Every operation is idempotent: a Job is identified by its trigger, so none is created twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardmill.aws.observability import logger
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.access.limits import create_job
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import BackfillNotFound, Busy, MillError
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.schedules import fire, manage
from shardmill.engine.schedules.backfill_times import requested_times
from shardmill.engine.schedules.request import request_of
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from shardmill.model.time.backfill import Backfill, BackfillRequest
from shardmill.model.time.schedule import short
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import JobRow, ScheduleRow
from shardmill.store.schedules import BackfillRow

MAX_TIMES_PER_PASS = 200
_TRIES = 6
_WAITS = "waits until"
_DEFINITION_SUSPENDED = f"{_WAITS} its definition is resumed"
Key = tuple[str, str, int]
NewId = Callable[[], str]


def check_scope(mill: Mill, row: ScheduleRow, actor: Actor) -> None:
    """Raise Forbidden if the Jobs of a schedule use worker groups that an actor may not submit to."""
    definition = mill.definitions.find(row.job_name) if actor.limited("submit") else None
    if definition:
        manage.check_job_groups(mill, manage.schedule_of(row), definition, actor, "submit")


def begin(
    mill: Mill, row: ScheduleRow, request: BackfillRequest, actor: Actor, now: int, new_id: NewId
) -> BackfillRow:
    """Start a backfill of a schedule's times."""
    times = requested_times(manage.schedule_of(row), request, now)
    if request.order == "desc":
        times.reverse()
    attempts = Attempts(f"the list of backfills of the schedule {row.id!r}")
    while True:
        attempts.begin()
        newest = next(mill.schedules.backfills(row.job_name, row.id, limit=1), None)
        backfill = BackfillRow(
            job_name=row.job_name,
            schedule_id=row.id,
            number=newest.number + 1 if newest else 1,
            state="RUNNING",
            create_time=now,
            update_time=now,
            user=actor.name,
            times=times,
            parallel=request.parallel,
            force=request.force,
        )
        if mill.schedules.add_backfill(backfill, due=now + RECHECK_MS):
            return advance(mill, _key(backfill), now, new_id) or backfill


@dataclass(slots=True)
class _Progress:
    """The state of a backfill during one pass over it."""

    at: int
    running: list[str]
    success: int
    failed: int
    skipped: int
    notes: str

    def count(self, job: JobRow | None) -> None:
        if job and job.state is JobState.SUCCESS:
            self.success += 1
        else:
            self.failed += 1
            self.notes = f"last failure: {job.trigger} ({job.state})" if job else "a Job was deleted"


def advance(mill: Mill, key: Key, now: int, new_id: NewId) -> BackfillRow | None:
    """Count the Jobs of a backfill that have ended and start the next ones; return the updated backfill."""
    for _ in range(_TRIES):
        backfill = mill.schedules.backfill(*key)
        if not backfill or (
            backfill.state == "DONE" or (backfill.state == "STOPPED" and not backfill.running)
        ):
            return backfill
        progress = _pass(mill, backfill, now, new_id)
        more = backfill.state == "RUNNING" and progress.at < len(backfill.times)
        state = backfill.state if more or progress.running or backfill.state == "STOPPED" else "DONE"
        open_ = bool(progress.running) or (more and state == "RUNNING")
        changed = mill.schedules.change_backfill(
            backfill,
            due=now + RECHECK_MS if open_ else None,
            state=state,
            at=progress.at,
            running=progress.running,
            success=progress.success,
            failed=progress.failed,
            skipped=progress.skipped,
            notes=progress.notes or None,
            update_time=now,
        )
        if changed and len(progress.running) < backfill.parallel and more and progress.at > backfill.at:
            continue  # the pass ended at MAX_TIMES_PER_PASS
        if changed:
            return changed
    return mill.schedules.backfill(*key)


def _pass(mill: Mill, backfill: BackfillRow, now: int, new_id: NewId) -> _Progress:
    b = backfill
    progress = _Progress(b.at, [], b.success, b.failed, b.skipped, b.notes)
    known = mill.jobs.by_id(b.running) if b.running else {}
    for job_id in b.running:
        job = known.get(job_id)
        if job and not job.state.ended:
            progress.running.append(job_id)
        else:
            progress.count(job)
    row = mill.schedules.get(b.job_name, b.schedule_id)
    if not row and b.state == "RUNNING":
        progress.notes = f"the schedule was deleted with {len(b.times) - b.at} times left"
        progress.at = len(b.times)
    batch = fire.FireBatch(mill, new_id)
    if progress.notes.startswith(_WAITS):
        progress.notes = ""
    if row and b.state == "RUNNING" and progress.at < len(b.times) and batch.suspended(b.job_name):
        row = None
        progress.notes = progress.notes or _DEFINITION_SUSPENDED
    while row and b.state == "RUNNING" and progress.at < len(b.times) and len(progress.running) < b.parallel:
        if progress.at - b.at >= MAX_TIMES_PER_PASS:
            break
        try:
            _run_time(batch, row, backfill, progress, now)
        except LimitReached as error:
            progress.notes = f"{_WAITS} there is room: {error}"[:500]
            break
        progress.at += 1
    return progress


def _run_time(
    batch: fire.FireBatch, row: ScheduleRow, backfill: BackfillRow, progress: _Progress, now: int
) -> None:
    """Start the Job of the next time, unless the time has one already."""
    mill = batch.mill
    time = backfill.times[progress.at]
    existing = mill.jobs.by_id([job_id for _, job_id in mill.runs.between(row.job_name, time, time + 1)])
    jobs = [job for job in existing.values() if job.schedule_id in (row.id, "")]
    known = _existing_job(jobs, backfill)
    if known:
        _count_existing(known, backfill, progress)
        return
    request = request_of(manage.schedule_of(row), time)
    taken = mill.jobs.find(row.job_name, request["trigger"])
    if taken and _belongs_to(taken, backfill):
        _count_existing(taken, backfill, progress)  # a concurrent pass has just created it
        return
    if taken:
        request["trigger"] = short(f"{request['trigger']}-b{backfill.number}")
    try:
        made = fire.build_scheduled_job(
            batch, row, request, Actor(backfill.user), now, backfill=backfill.number
        )
    except MillError as error:
        progress.failed += 1
        progress.notes = f"{request['trigger']} was rejected: {error}"[:500]
        return
    if create_job(mill, made, due=now + START_GRACE_MS):
        start_job(mill, made, now)
        progress.running.append(made.id)
        return
    concurrent = mill.jobs.find(row.job_name, request["trigger"])
    if not concurrent:
        raise Busy(f"the job {request['trigger']!r} is being created concurrently; retry")
    _count_existing(concurrent, backfill, progress)


def _existing_job(jobs: Sequence[JobRow], backfill: BackfillRow) -> JobRow | None:
    """Return the Job that counts for a time: the backfill's own, an open one or, without force, a success."""
    for job in jobs:
        if _belongs_to(job, backfill):
            return job
    for job in jobs:
        if not job.state.ended or (job.state is JobState.SUCCESS and not backfill.force):
            return job
    return None


def _belongs_to(job: JobRow, backfill: BackfillRow) -> bool:
    return job.backfill == backfill.number and job.schedule_id == backfill.schedule_id


def _count_existing(job: JobRow, backfill: BackfillRow, progress: _Progress) -> None:
    """Add an open Job to the running ones; count an ended Job by its state, or as skipped."""
    own = _belongs_to(job, backfill)
    if not job.state.ended and job.id not in progress.running:
        progress.running.append(job.id)
    elif own and job.state.ended:
        progress.count(job)
    else:
        progress.skipped += 1


def stop(mill: Mill, key: Key, actor: Actor, now: int) -> BackfillRow:
    """Stop a backfill: no more Jobs start, running Jobs continue."""
    attempts = Attempts("the backfill")
    while True:
        attempts.begin()
        backfill = read(mill, key)
        if backfill.state != "RUNNING":
            return backfill
        due = now + RECHECK_MS if backfill.running else None
        stopped = {"state": "STOPPED", "notes": f"stopped by {actor.name}", "update_time": now}
        changed = mill.schedules.change_backfill(backfill, due=due, **stopped)
        if changed:
            return changed


def read(mill: Mill, key: Key) -> BackfillRow:
    backfill = mill.schedules.backfill(*key)
    if not backfill:
        raise BackfillNotFound(f"the schedule {key[1]!r} of {key[0]!r} has no backfill {key[2]}")
    return backfill


def advance_due(mill: Mill, now: int, new_id: NewId) -> int:
    """Advance each backfill that is due; return how many are."""
    due = list(mill.schedules.due_backfills(now))
    for key in due:
        try:
            advance(mill, key, now, new_id)
        except Exception:
            extra = {"action": "advance-backfill", "key": key}
            logger.exception("failed to advance a backfill; the next tick will retry", extra=extra)
    return len(due)


def view(backfill: BackfillRow) -> Backfill:
    return Backfill(
        number=backfill.number,
        job_name=backfill.job_name,
        schedule_id=backfill.schedule_id,
        state=backfill.state,
        total=len(backfill.times),
        waiting=len(backfill.times) - backfill.at if backfill.state == "RUNNING" else 0,
        running=len(backfill.running),
        success=backfill.success,
        failed=backfill.failed,
        skipped=backfill.skipped,
        parallel=backfill.parallel,
        force=backfill.force,
        create_time=from_ms(backfill.create_time),
        update_time=from_ms(backfill.update_time),
        submit_user=backfill.user,
        notes=backfill.notes,
    )


def _key(backfill: BackfillRow) -> Key:
    return backfill.job_name, backfill.schedule_id, backfill.number
