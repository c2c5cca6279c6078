"""What the tick mends: whatever a crash left, found by an index and repeated until it is done."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from shardmill.aws.machines import parse_execution_name
from shardmill.aws.observability import logger
from shardmill.engine.control import delete
from shardmill.engine.jobs import dependencies
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import close_step, concurrency, finish, kill
from shardmill.engine.running.finish import announce
from shardmill.engine.running.recover import recover_run
from shardmill.engine.tasks import park
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

MOST_A_TICK = 1_000
_DEAD = {"FAILED", "TIMED_OUT", "ABORTED"}


def repair_due_jobs(mill: Mill, now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Look at every Job that is due; how many there were, and how many could not be mended now."""
    looked, failed = 0, 0
    for job_id, seen in list(islice(mill.jobs.due(now, limit=MOST_A_TICK), MOST_A_TICK)):
        if not mill.jobs.postpone(job_id, seen=seen, due=now + RECHECK_MS):
            continue
        looked += 1
        try:
            repair(mill, job_id, now, new_id)
        except Exception:
            # One Job that cannot be mended must not keep the others from it; it is due again in a minute.
            logger.exception("could not repair a job", extra={"action": "repair", "jobId": job_id})
            failed += 1
    return {"looked": looked, "failed": failed}


def repair(mill: Mill, job_id: str, now: int, new_id: Callable[[], str]) -> None:
    """Repeat whatever of a Job's life is missing; every part is harmless if it is not."""
    job = mill.jobs.get(job_id)
    if not job:
        return
    if job.event_pending:
        if job.state is JobState.SUSPENDED:
            park.park(mill, job, now)
        else:
            kill.end_steps(mill, job, ENGINE, now)  # a kill may have come no further than the Job
        announce(mill, job, now)
    elif job.state.ended:
        if job.heirs_pending:
            from shardmill.engine import downstream  # few ticks need what makes Jobs

            downstream.notify_dependents(mill, job, now, new_id)
        else:
            delete.delete_expired(mill, job, now)
    elif job.state in (JobState.INIT, JobState.WAITING):
        _repair_start(mill, job, now)
    elif job.state in (JobState.QUEUED, JobState.RUNNING):
        recover_run(mill, job, now)


def _repair_start(mill: Mill, job: JobRow, now: int) -> None:
    if job.unmet:
        dependencies.check_dependencies(mill, job, now)
        return
    if job.replaces:
        kill.kill_replaced(mill, job, now)
    if job.state is JobState.WAITING and mill.jobs.step(job.id, job.run, 0):
        concurrency.recheck(mill, job, now)
    else:
        mill.machines.start_job(job.id, job.run)
        _plan_again(mill, job, now)


def _plan_again(mill: Mill, job: JobRow, now: int) -> None:
    """An execution that ended without a plan cannot be started again by its name: fail truthfully."""
    status = mill.machines.status(job.id, job.run)
    if status in _DEAD:
        finish.fail_job(mill, job.id, job.run, f"its execution ended as {status}", now)


def end_failed_execution(mill: Mill, name: str, cause: str, now: int) -> bool:
    """An execution ended without its own Catch: end what it stood for; False if it was none of ours."""
    parsed = parse_execution_name(name)
    if not parsed:
        return False
    job_id, run, index = parsed
    job = mill.jobs.get(job_id)
    if not job or job.run != run or job.state.ended:
        return False
    if index is None:
        finish.fail_job(mill, job_id, run, cause, now)
    else:
        close_step.fail_step(mill, job_id, run, index, cause, now)
    return True
