"""Deleting Jobs: gone from lists and names at once; in full, with rows, files and logs, piece by piece."""

from __future__ import annotations

from shardmill.engine.errors import JobNotEnded
from shardmill.engine.files import keys
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import kill
from shardmill.model.blocks import set_count
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

ROWS_AT_ONCE = 2_000


def delete(mill: Mill, job: JobRow, actor: str, now: int, *, full: bool) -> None:
    """Delete a Job, killing it first if it has not ended; its name and trigger are free then."""
    if not job.state.ended:
        job = kill.kill(mill, job, actor, "deleted", now)
    elif job.event_pending:
        kill.end_steps(mill, job, actor, now)  # a kill may have come no further than the Job
    due = now + RECHECK_MS if full else None
    if not mill.jobs.mark_deleted(job, actor=actor, now=now, due=due, purge=full):
        present = mill.jobs.get(job.id)
        if present and present.state is not JobState.DELETED:
            named = f"{job.job_name}/{job.trigger}"
            raise JobNotEnded(f"the Job {named} is {present.state} just now, in run {present.run}; ask again")
        if present and full:
            delete(mill, present, actor, now, full=True)
    elif full:
        purge(mill, job)


def purge(mill: Mill, job: JobRow) -> bool:
    """Remove rows, files and logs of a deleted Job, so much at a time; whether nothing is left.

    The Job's own row goes last: as long as it is there, the tick goes on.
    """
    left = ROWS_AT_ONCE
    for run in range(1, job.run + 1):
        for step in mill.jobs.steps(job.id, run):
            for number in range(set_count(step.total) if step.total and not step.kept_from else 0):
                left -= mill.shards.purge_set(step, number, most=left)
                if left <= 0:
                    return False
    for prefix in keys.job_prefixes(job.id):
        if not mill.files.remove(prefix, most=ROWS_AT_ONCE):
            return False
    mill.jobs.purge(job)
    return True


def expired(job: JobRow, now: int) -> bool:
    """Whether a Job that ended is older than its definition keeps them."""
    if not job.retention_days or not job.state.ended or job.completed_time is None:
        return False
    return job.completed_time + job.retention_days * 86_400_000 <= now


def delete_expired(mill: Mill, job: JobRow, now: int) -> None:
    """What the tick does: go on with a purge, or begin that of a Job whose time is over."""
    if job.purge:
        purge(mill, job)
    elif expired(job, now):
        delete(mill, job, ENGINE, now, full=True)
