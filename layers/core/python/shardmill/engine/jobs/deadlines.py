"""Deadlines: a Job that has not ended by its own is marked, told of, and, if its definition says so, killed.

The row of a deadline is due until all of that is done, so whatever a crash leaves is done by a later tick:
the event is sent at least once, the mark is made once a run.
"""

from __future__ import annotations

from itertools import islice

from shardmill.aws.observability import logger
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import JobEnded
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.finish import detail_of
from shardmill.engine.running.kill import kill
from shardmill.model.base import from_ms
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

JOB_LATE = "Job Late"
MOST_A_TICK = 1_000


def handle_missed_deadlines(mill: Mill, now: int) -> dict[str, int]:
    """Deal with every deadline that has passed; how many Jobs were late. Raises if one could not be."""
    late, problem = 0, None
    for job_id, seen in list(islice(mill.deadlines.due(now, limit=MOST_A_TICK), MOST_A_TICK)):
        again = now + RECHECK_MS
        if not mill.deadlines.postpone(job_id, seen=seen, due=again):
            continue
        try:
            late += _passed(mill, job_id, now)
            mill.deadlines.delete(job_id, seen=again)
        except Exception as error:
            # One Job must not keep the others from it; its deadline is due again in a minute.
            logger.exception(
                "could not deal with a deadline", extra={"action": "check-deadline", "jobId": job_id}
            )
            problem = error
    if problem:
        raise problem
    return {"late": late}


def _passed(mill: Mill, job_id: str, now: int) -> bool:
    """Whether a Job had not ended by a deadline that has passed."""
    job = _marked(mill, job_id, now)
    if not job or job.deadline is None:
        return False
    deadline = from_ms(job.deadline).isoformat()
    try:
        mill.bus.publish(JOB_LATE, {**detail_of(mill, job, JOB_LATE, job.deadline), "deadline": deadline})
    finally:  # a bus that is away keeps no Job alive
        if job.on_deadline == "kill" and not job.state.ended:
            _kill(mill, job, f"its deadline, {deadline}, has passed", now)
    return True


def _kill(mill: Mill, job: JobRow, reason: str, now: int) -> None:
    try:
        kill(mill, job, ENGINE, reason, now)
    except JobEnded:
        logger.info("a late job came to its own end", extra={"action": "check-deadline", "jobId": job.id})


def _marked(mill: Mill, job_id: str, now: int) -> JobRow | None:
    """A Job that is marked as late, by this tick or an earlier one; None if it is not late."""
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
    """One that ended after its deadline was late too, though no tick came in between."""
    if job.deadline is None or job.state is JobState.DELETED:
        return False
    if job.state.ended and job.completed_time is not None:
        return job.completed_time > job.deadline
    return job.deadline <= now
