"""Repair Jobs after crashes: find those that are due in an index and repeat what is missing."""

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
from shardmill.engine.running.recover import fail_if_not_planned, recover_run
from shardmill.engine.tasks import park
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

MAX_PER_TICK = 1_000


def repair_due_jobs(mill: Mill, now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Repair every Job that is due; return how many were checked and how many repairs failed."""
    checked, failed = 0, 0
    for job_id, seen in list(islice(mill.jobs.due(now, limit=MAX_PER_TICK), MAX_PER_TICK)):
        if not mill.jobs.postpone(job_id, seen=seen, due=now + RECHECK_MS):
            continue
        checked += 1
        try:
            repair(mill, job_id, now, new_id)
        except Exception:
            # A failing Job must not stop the repair of the others.
            extra = {"action": "repair", "jobId": job_id}
            logger.exception("failed to repair a job; the next tick will retry", extra=extra)
            failed += 1
    return {"looked": checked, "failed": failed}


def repair(mill: Mill, job_id: str, now: int, new_id: Callable[[], str]) -> None:
    """Repeat what is missing for a Job's present state; idempotent."""
    job = mill.jobs.get(job_id)
    if not job:
        return
    if job.event_pending:
        if job.state is JobState.SUSPENDED:
            park.park(mill, job, now)
        else:
            kill.end_steps(mill, job, ENGINE, now)  # a kill may have crashed after its first write
        announce(mill, job, now)
    elif job.state.ended:
        if job.heirs_pending:
            from shardmill.engine import downstream  # imports jobs/submit, which few ticks need

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
        fail_if_not_planned(mill, job, now)


def end_failed_execution(mill: Mill, name: str, cause: str, now: int) -> bool:
    """End the Job or step of an execution that ended without its Catch; False if there is none to end."""
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
        close_step.end_without_execution(mill, job_id, run, index, cause, now)
    return True
