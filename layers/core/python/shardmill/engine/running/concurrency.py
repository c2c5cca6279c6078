"""Whose turn it is: the `concurrency` of a definition, and schedules that queue what overlaps.

A Job starts when the one before it in its schedule's queue is over and it has a slot of its definition,
oldest first; it gives that on when it ends. The note that a Job waits is written before its last look, and
whoever ends looks for notes after that: no turn is lost.
"""

from __future__ import annotations

from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.start import start_roots
from shardmill.engine.tasks.park import unpark_step
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow

_AT_ONCE = 10
_LONGEST_QUEUE = 1_000


def may_start(mill: Mill, job: JobRow, now: int) -> bool:
    """Whether it is a planned Job's turn; if not, it is noted, and starts when its turn comes."""
    return _previous_is_over(mill, job, now) and _has_slot(mill, job, now)


def _previous_is_over(mill: Mill, job: JobRow, now: int) -> bool:
    if not job.after:
        return True
    if not _over(mill, job.after):
        mill.slots.add_waiter(_queue(job), job.jid, job.id)
        if not _over(mill, job.after):
            _note(mill, job, f"waits for the previous Job of the schedule {job.schedule_id} to end", now)
            return False
    mill.jobs.clear_after(job)
    mill.slots.remove_waiter(_queue(job), job.jid)
    return True


def _over(mill: Mill, job_id: str) -> bool:
    """Whether a Job has ended, and those before it that it never had its turn after."""
    for _ in range(_LONGEST_QUEUE):
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
    if not mill.slots.waiters(line, limit=1) and _take(mill, job):
        return True
    mill.slots.add_waiter(line, job.jid, job.id)
    _note(mill, job, f"waits for one of the {job.concurrency} Jobs of {line} that run at once to end", now)
    _pass_on(mill, line, now)
    return False


def _note(mill: Mill, job: JobRow, notes: str, now: int) -> None:
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
    """A Job is over, or suspended: its slot goes to those that wait longest, and its queue goes on."""
    if job.concurrency:
        mill.slots.release(job.job_name, [job.id])
        _pass_on(mill, job.job_name, now)
    if job.schedule_id and job.state.ended:
        for next_id in mill.slots.waiters(_queue(job), limit=_AT_ONCE):
            waiting = mill.jobs.get(next_id)
            if waiting:
                _try(mill, waiting, now)


def recheck(mill: Mill, job: JobRow, now: int) -> None:
    """What the tick does for a Job that waits: slots of Jobs that are over are taken from them."""
    line = job.job_name
    if job.concurrency:
        holders = mill.slots.holders(line) - {job.id}
        over = [id_ for id_ in holders if (holder := mill.jobs.get(id_)) is None or not _runs(holder)]
        if over:
            mill.slots.release(line, over)
            _pass_on(mill, line, now)
    _try(mill, job, now)


def _try(mill: Mill, job: JobRow, now: int) -> None:
    if job.state not in (JobState.INIT, JobState.WAITING):
        for line in (_queue(job), job.job_name):
            mill.slots.remove_waiter(line, job.jid)
    elif may_start(mill, job, now):
        start(mill, job, now)
        mill.slots.remove_waiter(job.job_name, job.jid)


def start(mill: Mill, job: JobRow, now: int) -> None:
    """A Job has its turn: it begins, or goes on where it was suspended."""
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
    """Take a slot; one that was ended meanwhile gives it back, because nobody else would."""
    assert job.concurrency
    if not mill.slots.take(job.job_name, job.id, most=job.concurrency):
        return False
    present = mill.jobs.get(job.id)
    if present and _runs(present):
        return True
    mill.slots.release(job.job_name, [job.id])
    return False


def _pass_on(mill: Mill, line: str, now: int) -> None:
    """Give free slots to those that wait longest."""
    for job_id in mill.slots.waiters(line, limit=_AT_ONCE):
        job = mill.jobs.get(job_id)
        if job and job.state in (JobState.INIT, JobState.WAITING):
            if not _take(mill, job):
                return
            start(mill, job, now)
        if job:
            mill.slots.remove_waiter(line, job.jid)
