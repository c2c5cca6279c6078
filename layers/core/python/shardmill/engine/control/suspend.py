"""Suspend and resume a Job: its state first, then its steps.

After its steps are changed, the Job is read again: of a concurrent suspend and resume, the later state of the
Job applies to its steps too. The tick completes what a crash interrupts.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.control.rerun import Scope, rerun
from shardmill.engine.errors import JobEnded
from shardmill.engine.jobs import dependencies
from shardmill.engine.jobs.plan import plan
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import concurrency
from shardmill.engine.running.finish import EVENT_GRACE_MS, announce
from shardmill.engine.running.kill import is_complete
from shardmill.engine.running.recover import recover_run
from shardmill.engine.tasks import park
from shardmill.model.actor import Actor, suspended_by
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow, StepRow

_ALIVE = (JobState.INIT, JobState.WAITING, JobState.QUEUED, JobState.RUNNING)


def suspend(mill: Mill, job: JobRow, actor: Actor, reason: str, now: int, *, let_finish: bool) -> JobRow:
    """Suspend a Job; its running tasks stop at the next heartbeat or, with `let_finish`, finish."""
    notes = suspended_by(actor, reason)
    attempts = Attempts(f"the job {job.job_name}/{job.trigger}")
    while True:
        attempts.begin()
        moved = mill.jobs.move(
            job.id,
            job.run,
            JobState.SUSPENDED,
            sources=_ALIVE,
            now=now,
            due=now + EVENT_GRACE_MS,
            actor=actor.name,
            reason=reason or "suspended",
            event_pending=True,
            heirs_pending=None,
            parked=True,
            let_finish=let_finish or None,
            notes=notes,
        )
        if moved:
            if park.park(mill, moved, now, Budget()):
                announce(mill, moved, now)
            else:
                continue_soon(mill, job.id, now)
            _sync_steps(mill, moved, now)
            return moved
        present = mill.jobs.get(job.id) or job.evolve(state=JobState.DELETED)
        if not check_suspend(present):
            return present


def check_suspend(job: JobRow) -> bool:
    """Return whether a suspension changes a Job. Raises JobEnded."""
    if job.state.ended:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {job.state}")
    return job.state is not JobState.SUSPENDED


def check_resume(job: JobRow) -> bool:
    """Return whether a resume changes a Job. Raises JobEnded."""
    if job.state.ended:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {job.state}; rerun it instead")
    return job.state is JobState.SUSPENDED


def state_after_resume(job: JobRow, nodes: Sequence[StepRow]) -> JobState:
    """Return the state in which a Job that was suspended on request continues."""
    if job.unmet:
        return JobState.WAITING
    if job.planning or not is_complete(nodes):
        return JobState.INIT
    if job.concurrency or job.after:
        return JobState.WAITING
    return JobState.RUNNING if any(node.started_time for node in nodes) else JobState.QUEUED


def resume(mill: Mill, job: JobRow, actor: Actor, reason: str, now: int) -> JobRow:
    """Resume a suspended Job; one that failed (`onFailure: suspend`) is rerun where it failed."""
    if not check_resume(job):
        return job
    if not job.parked:  # it failed with `onFailure: suspend`
        return rerun(mill, job, Scope(), actor, reason or "resumed: rerun of what failed", now)
    state = state_after_resume(job, mill.jobs.steps(job.id, job.run))
    moved = mill.jobs.move(
        job.id,
        job.run,
        state,
        sources=(JobState.SUSPENDED,),
        now=now,
        due=now + RECHECK_MS,
        actor=actor.name,
        reason=reason or "resumed",
        event_pending=None,
        parked=None,
        let_finish=None,
        notes=None,
    )
    present = moved or mill.jobs.get(job.id) or job
    if moved:
        _continue(mill, moved, now)
        _sync_steps(mill, moved, now)
    return mill.jobs.get(present.id) or present


def _continue(mill: Mill, job: JobRow, now: int) -> None:
    if job.unmet:
        dependencies.check_dependencies(mill, job, now)
    elif job.state is JobState.INIT:
        plan(mill, job.id, job.run, now)  # its execution may have ended, and its name cannot be reused
    elif job.state is JobState.WAITING:
        if concurrency.may_start(mill, job, now):
            concurrency.start(mill, job, now)
    else:
        recover_run(mill, job, now)


def _sync_steps(mill: Mill, moved: JobRow, now: int) -> None:
    """Apply the Job's present state to its steps if it was suspended or resumed meanwhile."""
    present = mill.jobs.get(moved.id)
    if not present or present.run != moved.run or present.state is moved.state:
        return
    if present.state is JobState.SUSPENDED:
        if not park.park(mill, present, now, Budget()):
            continue_soon(mill, present.id, now)
    elif present.state in (JobState.QUEUED, JobState.RUNNING):
        recover_run(mill, present, now)
