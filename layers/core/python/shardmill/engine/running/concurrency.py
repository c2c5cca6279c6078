"""Limit how many Jobs run at once: the `concurrency` of a definition and schedules with `overlap: queue`.

A Job starts when the previous Job of its schedule's queue has ended and it holds a slot of its definition.
Slots go to the oldest Job first and are released when a Job ends or is suspended. A waiting Job writes its
entry before its last check, and an ending Job writes its end before it reads the entries: no start is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shardmill.aws.observability import logger
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.start import start_roots
from shardmill.engine.tasks.park import unpark_step
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow

_MAX_CHAIN = 1_000
_WAITING = (JobState.INIT, JobState.WAITING)


def may_start(mill: Mill, job: JobRow, now: int) -> bool:
    """Return whether a planned Job may start now; if not, add it to the queue it waits in."""
    return _previous_ended(mill, job, now) and _has_slot(mill, job, now)


def _previous_ended(mill: Mill, job: JobRow, now: int) -> bool:
    if not job.after:
        return True
    if not _chain_ended(mill, job.after):
        mill.slots.add_waiter(_queue(job), job.jid, job.id)
        if not _chain_ended(mill, job.after):
            _set_waiting(
                mill, job, f"waits for the previous Job of the schedule {job.schedule_id} to end", now
            )
            return False
    mill.jobs.clear_after(job)
    mill.slots.remove_waiter(_queue(job), job.jid)
    return True


def _chain_ended(mill: Mill, job_id: str) -> bool:
    """Return whether a Job has ended, and so have those that it was still queued behind when it ended."""
    for _ in range(_MAX_CHAIN):
        job = mill.jobs.get(job_id)
        if not job:
            return True
        if not job.state.ended:
            return False
        if not job.after:
            return True
        job_id = job.after
    return True


def _queue(job: JobRow) -> str:
    return f"{job.job_name}/{job.schedule_id}"


def _has_slot(mill: Mill, job: JobRow, now: int) -> bool:
    line = job.job_name
    if not job.concurrency or job.id in mill.slots.holders(line):
        return True
    if next(mill.slots.waiters(line), None) is None and _take(mill, job):
        return True
    mill.slots.add_waiter(line, job.jid, job.id)
    _set_waiting(mill, job, f"waits for a free slot: the concurrency of {line} is {job.concurrency}", now)
    _grant_slots(mill, line, now)
    return False


def _set_waiting(mill: Mill, job: JobRow, notes: str, now: int) -> None:
    if job.state is JobState.WAITING and job.notes == notes:
        return  # every tick comes here: a write each time would fill the row with history
    mill.jobs.move(
        job.id,
        job.run,
        JobState.WAITING,
        sources=(JobState.INIT, JobState.WAITING),
        now=now,
        due=now + RECHECK_MS,
        notes=notes,
    )


def release_slot(mill: Mill, job: JobRow, now: int) -> None:
    """Release the slot of a Job that ended or was suspended, and start the Jobs that waited for it.

    A failure to start others is logged and does not propagate: the tick rechecks every waiting Job.
    """
    if job.concurrency:
        mill.slots.release(job.job_name, [job.id])
        mill.slots.remove_waiter(job.job_name, job.jid)
        with _failure_logged(job.job_name):
            _grant_slots(mill, job.job_name, now)
    if job.schedule_id and job.state.ended:
        if job.after:
            mill.slots.remove_waiter(_queue(job), job.jid)
        with _failure_logged(_queue(job)):
            _start_queued(mill, _queue(job), now)


def _start_queued(mill: Mill, line: str, now: int) -> None:
    """Start the next Job of a schedule's queue."""
    for waiting in _waiting_jobs(mill, line):
        started = False
        with _failure_logged(line, waiting):
            started = _try_start(mill, waiting, now)
        if not started:
            return  # those behind it wait for it


def _waiting_jobs(mill: Mill, line: str) -> Iterator[JobRow]:
    """The Jobs that wait in a line, longest first; entries of Jobs that no longer wait are removed."""
    for waiter in mill.slots.waiters(line):
        job = mill.jobs.get(waiter.job_id)
        if job and job.state in _WAITING:
            yield job
        else:
            mill.slots.remove_waiter(line, waiter.jid)


@contextmanager
def _failure_logged(line: str, job: JobRow | None = None) -> Iterator[None]:
    try:
        yield
    except Exception:
        extra = {"action": "start-waiting", "line": line} | ({"jobId": job.id} if job else {})
        logger.exception("failed to start a waiting job; the next tick will retry", extra=extra)


def recheck(mill: Mill, job: JobRow, now: int) -> None:
    """Release slots that Jobs no longer running still hold, and try to start a waiting Job."""
    line = job.job_name
    if job.concurrency:
        holders = mill.slots.holders(line) - {job.id}
        stale = [id_ for id_ in holders if (holder := mill.jobs.get(id_)) is None or not _runs(holder)]
        if stale:
            mill.slots.release(line, stale)
            _grant_slots(mill, line, now)
    _try_start(mill, job, now)


def _try_start(mill: Mill, job: JobRow, now: int) -> bool:
    if job.state not in _WAITING:
        for line in (_queue(job), job.job_name):
            mill.slots.remove_waiter(line, job.jid)
        return True
    if not may_start(mill, job, now):
        return False
    start(mill, job, now)
    mill.slots.remove_waiter(job.job_name, job.jid)
    return True


def start(mill: Mill, job: JobRow, now: int) -> None:
    """Start a Job, or continue it where it was suspended."""
    nodes = mill.jobs.steps(job.id, job.run)
    start_roots(mill, job, now, nodes)
    if any(node.started_time for node in nodes):
        due = now + RECHECK_MS
        mill.jobs.move(job.id, job.run, JobState.RUNNING, sources=(JobState.QUEUED,), now=now, due=due)
    for node in nodes:
        if node.state is StepState.SUSPENDED:
            unpark_step(mill, node, now)


def _runs(job: JobRow) -> bool:
    return not job.state.ended and job.state is not JobState.SUSPENDED


def _take(mill: Mill, job: JobRow) -> bool:
    """Take a slot for a Job; a Job that ended meanwhile releases it at once, as its end will not."""
    assert job.concurrency
    if not mill.slots.take(job.job_name, job.id, most=job.concurrency):
        return False
    present = mill.jobs.get(job.id)
    if present and _runs(present):
        return True
    mill.slots.release(job.job_name, [job.id])
    return False


def _grant_slots(mill: Mill, line: str, now: int) -> None:
    """Give free slots to the Jobs that have waited longest, and start them."""
    for job in _waiting_jobs(mill, line):
        if not _take(mill, job):
            return
        with _failure_logged(line, job):
            start(mill, job, now)
            mill.slots.remove_waiter(line, job.jid)
