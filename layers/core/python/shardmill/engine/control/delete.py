"""Delete Jobs: hide them at once and, with `full`, remove their rows, files and logs in batches."""

from __future__ import annotations

from shardmill.engine.errors import JobNotEnded
from shardmill.engine.files import keys
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import kill
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

PURGE_BATCH = 2_000


def delete(mill: Mill, job: JobRow, actor: str, now: int, *, full: bool) -> None:
    """Delete a Job, killing it first if it has not ended; its trigger can be used again."""
    if not job.state.ended:
        job = kill.kill(mill, job, actor, "deleted", now)
    elif job.event_pending:
        kill.end_steps(mill, job, actor, now)  # a kill may have crashed after its first write
    due = now + RECHECK_MS if full else None
    if not mill.jobs.mark_deleted(job, actor=actor, now=now, due=due, purge=full):
        present = mill.jobs.get(job.id)
        if present and present.state is not JobState.DELETED:
            named = f"{job.job_name}/{job.trigger}"
            raise JobNotEnded(f"the Job {named} is {present.state}, in run {present.run}; retry")
        if present and full:
            delete(mill, present, actor, now, full=True)
    elif full:
        purge(mill, job)


def purge(mill: Mill, job: JobRow) -> bool:
    """Remove one batch of a deleted Job's rows, files and logs; return whether nothing is left.

    The Job's own row is removed last, so the tick continues until then.
    """
    left = PURGE_BATCH
    for run in range(1, job.run + 1):
        for step in mill.jobs.steps(job.id, run):
            if step.total and not step.kept_from:
                left -= mill.shards.purge(step, most=left)
            if left <= 0:
                return False
    for prefix in keys.job_prefixes(job.id):
        if not mill.files.remove(prefix, most=PURGE_BATCH):
            return False
    mill.jobs.purge(job)
    return True


def expired(job: JobRow, now: int) -> bool:
    """Return whether a Job ended more than `retentionDays` ago."""
    if not job.retention_days or not job.state.ended or job.completed_time is None:
        return False
    return job.completed_time + job.retention_days * 86_400_000 <= now


def delete_expired(mill: Mill, job: JobRow, now: int) -> None:
    """Continue the purge of a deleted Job, or delete a Job whose retention has expired."""
    if job.purge:
        purge(mill, job)
    elif expired(job, now):
        delete(mill, job, ENGINE, now, full=True)
