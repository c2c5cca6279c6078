"""Handle missed deadlines: mark the Job as late, publish an event and, with `onDeadline: kill`, kill the Job.

A deadline's row stays due until all of that is done, so a later tick completes what a crash interrupted. The
event is sent at least once; a run is marked once.
"""

from __future__ import annotations

from itertools import islice

from shardmill.aws.observability import logger
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import JobEnded
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.finish import detail_of
from shardmill.engine.running.kill import kill
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import JobRow

JOB_LATE = "Job Late"
MAX_PER_TICK = 1_000


def handle_missed_deadlines(mill: Mill, now: int) -> dict[str, int]:
    """Handle every deadline that has passed; return how many Jobs are late. Raises if one of them failed."""
    late, failure = 0, None
    for job_id, seen in list(islice(mill.deadlines.due(now, limit=MAX_PER_TICK), MAX_PER_TICK)):
        again = now + RECHECK_MS
        if not mill.deadlines.postpone(job_id, seen=seen, due=again):
            continue
        try:
            late += _handle(mill, job_id, now)
            mill.deadlines.delete(job_id, seen=again)
        except Exception as error:
            # A failing Job must not stop the handling of the others.
            extra = {"action": "check-deadline", "jobId": job_id}
            logger.exception("failed to handle a missed deadline; the next tick will retry", extra=extra)
            failure = error
    if failure:
        raise failure
    return {"late": late}


def _handle(mill: Mill, job_id: str, now: int) -> bool:
    """Handle the deadline of a Job; return whether the Job missed it."""
    job = _mark_late(mill, job_id, now)
    if not job or job.deadline is None:
        return False
    deadline = from_ms(job.deadline).isoformat()
    try:
        mill.bus.publish(JOB_LATE, {**detail_of(mill, job, JOB_LATE, job.deadline), "deadline": deadline})
    finally:  # the kill does not depend on the event
        if job.on_deadline == "kill" and not job.state.ended:
            _kill(mill, job, f"its deadline, {deadline}, has passed", now)
    return True


def _kill(mill: Mill, job: JobRow, reason: str, now: int) -> None:
    try:
        kill(mill, job, ENGINE, reason, now)
    except JobEnded:
        extra = {"action": "check-deadline", "jobId": job.id, "run": job.run}
        logger.info("a late job ended before it was killed", extra=extra)


def _mark_late(mill: Mill, job_id: str, now: int) -> JobRow | None:
    """Mark a Job as late unless it is marked already; return it, or None if it is not late."""
    attempts = Attempts(f"the job {job_id}")
    while True:
        attempts.begin()
        job = mill.jobs.get(job_id)
        if not job or not _is_late(job, now):
            return None
        if job.late:
            return job
        assert job.deadline is not None
        marked = mill.deadlines.mark_late(
            job, f"late: its deadline was {from_ms(job.deadline).isoformat()}", now
        )
        if marked:
            return marked


def _is_late(job: JobRow, now: int) -> bool:
    """Return whether a Job missed its deadline; one that ended after it, before a tick saw it, counts."""
    if job.deadline is None or job.state is JobState.DELETED:
        return False
    if job.state.ended and job.completed_time is not None:
        return job.completed_time > job.deadline
    return job.deadline <= now
