"""Start a waiting Job on request, without the Jobs that it waits for."""

from __future__ import annotations

from shardmill.engine.errors import Conflict, JobEnded
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow


def start_without_dependencies(mill: Mill, job: JobRow, actor: Actor, reason: str, now: int) -> JobRow:
    """Start a Job that waits for other Jobs; no-op if it no longer waits for any.

    Of this, the end of the last parent, a kill and the expiry, the first to write wins.
    """
    if not check_start(job):
        return job
    text = "started without its dependencies" + (f": {reason}" if reason else "")
    due = now + START_GRACE_MS
    started = mill.jobs.waive_dependencies(job, now=now, due=due, actor=actor.name, reason=text)
    if not started:
        present = mill.jobs.get(job.id) or job.evolve(state=JobState.DELETED)
        check_start(present)
        return present
    start_job(mill, started, now)
    mill.runs.delete_edges(started)
    return started


def check_start(job: JobRow) -> bool:
    """Return whether a Job waits for others. Raises JobEnded, or Conflict if it is suspended."""
    name = f"the Job {job.job_name}/{job.trigger}"
    if job.state.ended:
        raise JobEnded(f"{name} has ended as {job.state}; rerun it")
    if job.state is JobState.SUSPENDED:
        raise Conflict(f"{name} is {job.state}; resume it first")
    return job.unmet
