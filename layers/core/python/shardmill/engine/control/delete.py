"""Delete Jobs: hide them at once and, with `full`, remove their rows, files and logs in batches."""

from __future__ import annotations

from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.errors import JobNotEnded
from shardmill.engine.files import keys
from shardmill.engine.mill import RECHECK_MS, STEP_CACHE_MS, Mill
from shardmill.engine.running import kill
from shardmill.engine.running.finish import announce
from shardmill.model.blocks import block_count
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.due.ended import owes_success
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.tasks.keys import TASK_PARTITIONS

PURGE_BATCH = 2_000
PURGE_GRACE_MS = 5 * STEP_CACHE_MS
"""How long the rows of tasks are kept after the end of their step.

A worker with a cached row of the open step would lease a task whose row was removed.
"""
_STEPS = 100
_ROWS_PER_CALL = 25
_CALLS_PER_BATCH = 100
"""The cost of deleting a batch of objects, in units of a budget: its few calls take long."""


def delete(
    mill: Mill, job: JobRow, actor: str, now: int, *, full: bool, budget: Budget | None = None
) -> None:
    """Delete a Job, killing it first if it has not ended; its trigger can be used again.

    Other calls continue work that exceeds the budget: ending its tasks and removing its rows.
    """
    budget = budget or Budget()
    if not job.state.ended:
        job = kill.kill(mill, job, actor, "deleted", now, budget)
    ending = job.ending
    if job.event_pending:
        # A kill is not complete: its event must not wait for its tasks, because the Job is deleted now.
        ending = not kill.end_steps(mill, job, actor, now, budget)
        announce(mill, job, now)
    if job.has_token:
        mill.data_tokens.delete(job.id)
    owed = owes_success(job)
    due = now + RECHECK_MS if full or ending or owed else None
    if not mill.jobs.mark_deleted(job, actor=actor, now=now, due=due, purge=full, ending=ending):
        present = mill.jobs.get(job.id)
        if present and present.state is not JobState.DELETED:
            named = f"{job.job_name}/{job.trigger}"
            raise JobNotEnded(f"the Job {named} is {present.state}, in run {present.run}; retry")
        if present and full:
            delete(mill, present, actor, now, full=True, budget=budget)
    elif full or ending:
        _complete(mill, job.evolve(purge=full, ending=ending, owed=owed), now, budget)


def _complete(mill: Mill, job: JobRow, now: int, budget: Budget) -> None:
    """End the tasks of a deleted Job, then remove its rows if it is deleted in full."""
    if job.ending and not kill.end_steps(mill, job, ENGINE, now, budget):
        continue_soon(mill, job.id, now)
    elif not job.purge:
        mill.watches.end_deletion(job.id)
    elif now - _last_end(mill, job) < PURGE_GRACE_MS:
        return  # the next tick continues
    elif not purge(mill, job, budget):
        continue_soon(mill, job.id, now)


def _last_end(mill: Mill, job: JobRow) -> int:
    """Return the end of a Job's last step that a worker's cache may still show as open."""
    steps = mill.jobs.steps(job.id, job.run) if job.ending else ()
    return max([job.completed_time or 0, *(step.completed_time or 0 for step in steps)])


def purge(mill: Mill, job: JobRow, budget: Budget) -> bool:
    """Remove a deleted Job's rows, files and logs; False if the budget is spent before.

    The row of a step is removed after the rows of its tasks, so that a further call continues with the next
    step. The Job's own row is removed last, so the tick continues until then. It stays until all
    children have been notified of the Job's success.
    """
    while steps := mill.jobs.first_steps(job.id, limit=_STEPS):
        for step in steps:
            if not _purge_tasks(mill, step, budget):
                return False
        mill.jobs.remove_steps(steps)
    for prefix in keys.job_prefixes(job.id):
        if budget.spent:
            return False
        while not mill.files.remove(prefix, most=PURGE_BATCH):
            budget.spend(_CALLS_PER_BATCH)
            if budget.spent:
                return False
    present = mill.jobs.get(job.id) if job.counted_bytes is not None or mill.settings.limits.any else None
    if present:
        mill.usage.release_bytes(present)
    return job.owed or _purge_job(mill, job, budget)


def _purge_job(mill: Mill, job: JobRow, budget: Budget) -> bool:
    """Remove the row of a Job after the rows beside it, such as the marks of the children that counted it."""
    while not mill.jobs.purge(job, most=PURGE_BATCH):
        budget.spend(1 + PURGE_BATCH // _ROWS_PER_CALL)
        if budget.spent:
            return False
    return True


def _purge_tasks(mill: Mill, step: StepRow, budget: Budget) -> bool:
    while step.total and not step.kept_from:
        if budget.spent:
            return False
        deleted = mill.shards.purge(step, most=PURGE_BATCH)
        budget.spend(min(block_count(step.total), TASK_PARTITIONS) + deleted // _ROWS_PER_CALL)
        if deleted < PURGE_BATCH:
            break
    return True


def expired(job: JobRow, now: int) -> bool:
    """Return whether a Job has ended and is to be deleted, or ended more than `retentionDays` ago."""
    if job.delete_at is not None and job.state.ended:
        return job.delete_at <= now
    if not job.retention_days or not job.state.ended or job.completed_time is None:
        return False
    return job.completed_time + job.retention_days * 86_400_000 <= now


def continue_deletion(mill: Mill, job: JobRow, now: int, budget: Budget) -> None:
    """Continue the deletion of a deleted Job, or delete a Job whose retention has expired."""
    if job.state is JobState.DELETED:
        _complete(mill, job, now, budget)
    elif expired(job, now):
        delete(mill, job, ENGINE, now, full=True, budget=budget)
