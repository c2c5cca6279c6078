"""Limit how many Jobs run at once: the `concurrency` of a definition and schedules with `overlap: queue`.

A Job starts when the previous Job of its schedule's queue has ended and it holds a slot of its definition.
Slots go to the oldest Job first and are released when a Job ends or is suspended. A waiting Job writes its
entry before its last check, and an ending Job writes its end before it reads the entries: no start is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from shardmill.aws.observability import logger
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.start import start_roots
from shardmill.engine.tasks.park import unpark_step
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.slots import Holder, Waiter

_MAX_CHAIN = 1_000
_CHECKING_WAITERS = 3
"""How many Jobs at the head of a line check whether its holders still run; those behind wait for them."""
_WAITING = (JobState.INIT, JobState.WAITING)


def may_start(mill: Mill, job: JobRow, now: int) -> bool:
    """Return whether a planned Job may start now; if not, add it to the queue it waits in."""
    return _previous_ended(mill, job, now) and _has_slot(mill, job, now)


def _previous_ended(mill: Mill, job: JobRow, now: int) -> bool:
    if not job.after:
        return True
    if not _chain_ended(mill, job.after):
        mill.slots.add_waiter(_queue(job), _waiter(job))
        if not _chain_ended(mill, job.after):
            _set_waiting(
                mill, job, f"waits for the previous Job of the schedule {job.schedule_id} to end", now
            )
            return False
    mill.jobs.clear_after(job)
    mill.slots.remove_waiter(_queue(job), _waiter(job))
    return True


def _chain_ended(mill: Mill, job_id: str) -> bool:
    """Return whether a Job, and the Jobs that it was still queued behind at its end, have ended."""
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


def _waiter(job: JobRow) -> Waiter:
    return Waiter(job.jid, job.id, job.run)


def _holder(job: JobRow) -> Holder:
    return Holder(job.id, job.run)


def _has_slot(mill: Mill, job: JobRow, now: int) -> bool:
    line = job.job_name
    if not job.concurrency:
        return True
    holders = mill.slots.holders(line)
    if _holder(job) in holders:
        return True
    earlier = {holder for holder in holders if holder.job_id == job.id and holder.run < job.run}
    if earlier:  # planning completed the end of an earlier run, whose slot nobody else releases at once
        mill.slots.release(line, earlier)
        holders -= earlier
    free = len(holders) < job.concurrency
    if free and next(mill.slots.waiters(line), None) is None and _take(mill, job):
        return True
    new = mill.slots.add_waiter(line, _waiter(job))
    _set_waiting(mill, job, f"waits for a free slot: the concurrency of {line} is {job.concurrency}", now)
    if new or free:
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
        if job.state.ended:
            mill.slots.release(job.job_name, [_holder(job), Holder(job.id, job.run - 1)])
            mill.slots.remove_waiter(job.job_name, _waiter(job))
        else:
            mill.slots.release_suspended(job.job_name, _waiter(job))
        with _failure_logged(job.job_name):
            _grant_slots(mill, job.job_name, now)
    if job.schedule_id and job.state.ended:
        if job.after:
            mill.slots.remove_waiter(_queue(job), _waiter(job))
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
        if job and job.state in _WAITING and job.run == waiter.run:
            yield job
        else:
            mill.slots.remove_waiter(line, waiter)


@contextmanager
def _failure_logged(line: str, job: JobRow | None = None) -> Iterator[None]:
    try:
        yield
    except Exception:
        extra = {"action": "start-waiting", "line": line} | ({"jobId": job.id} if job else {})
        logger.exception("failed to start a waiting job; the next tick will retry", extra=extra)


def recheck(mill: Mill, job: JobRow, now: int) -> None:
    """Try to start a waiting Job, after the Jobs at the head of its line released unused slots."""
    if job.concurrency:
        first = islice(_waiting_jobs(mill, job.job_name), _CHECKING_WAITERS)
        if any(each.id == job.id for each in first):
            _release_unused(mill, job.job_name, now)
    _try_start(mill, job, now)


def _release_unused(mill: Mill, line: str, now: int) -> None:
    """Release the slots of runs that have ended or are suspended, and grant them to waiting Jobs."""
    holders = mill.slots.holders(line)
    jobs = mill.jobs.by_id({holder.job_id for holder in holders})
    live = {_holder(job): job for job in jobs.values() if not job.state.ended}
    suspended = [job for holder, job in live.items() if holder in holders and not _runs(job)]
    for job in suspended:
        mill.slots.release_suspended(line, _waiter(job))
    ended = holders - live.keys()
    if ended:
        mill.slots.release(line, ended)
    if ended or suspended:
        _grant_slots(mill, line, now)


def _try_start(mill: Mill, job: JobRow, now: int) -> bool:
    if job.state not in _WAITING:
        for line in (_queue(job), job.job_name):
            mill.slots.remove_waiter(line, _waiter(job))
        return True
    if not may_start(mill, job, now):
        return False
    start(mill, job, now)
    mill.slots.remove_waiter(job.job_name, _waiter(job))
    return True


def start(mill: Mill, job: JobRow, now: int) -> None:
    """Start a Job, or continue it where it was suspended."""
    nodes = mill.jobs.steps(job.id, job.run)
    budget = Budget()
    start_roots(mill, job, now, nodes, budget=budget)
    if any(node.started_time for node in nodes):
        due = now + RECHECK_MS
        mill.jobs.move(job.id, job.run, JobState.RUNNING, sources=(JobState.QUEUED,), now=now, due=due)
    for node in nodes:
        released = _released_while_suspended(node)
        if released or node.state is StepState.SUSPENDED:
            if budget.spent:
                continue_soon(mill, job.id, now)
                return
            if released:
                budget.spend()
                mill.start_step(node)
            else:
                unpark_step(mill, node, now, budget)


def _released_while_suspended(node: StepRow) -> bool:
    """Return whether a step waits for nothing more and was not started; roots are started before."""
    ready = node.kind == "step" and node.state is StepState.WAITING and not node.waiting
    return ready and not (node.root or node.spoiled or node.unwanted)


def _runs(job: JobRow) -> bool:
    return not job.state.ended and job.state is not JobState.SUSPENDED


def _take(mill: Mill, job: JobRow) -> bool:
    """Take a slot for a Job; if the Job ended meanwhile, release the slot, because its end did not."""
    assert job.concurrency
    if not mill.slots.take(job.job_name, _holder(job), most=job.concurrency):
        return False
    present = mill.jobs.get(job.id)
    if present and present.run == job.run and not present.state.ended:
        if _runs(present):
            return True
        mill.slots.release_suspended(job.job_name, _waiter(job))
    else:
        mill.slots.release(job.job_name, [_holder(job)])
    return False


def _grant_slots(mill: Mill, line: str, now: int) -> None:
    """Give free slots to the Jobs that have waited longest, and start them."""
    for job in _waiting_jobs(mill, line):
        if not _take(mill, job):
            return
        with _failure_logged(line, job):
            start(mill, job, now)
            mill.slots.remove_waiter(line, _waiter(job))
