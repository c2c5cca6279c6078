"""Handle the end of a Job: release the Jobs that wait for it, start child Jobs, advance its backfill."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardmill.aws.observability import logger
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.errors import DefinitionSuspended
from shardmill.engine.jobs import children, dependencies
from shardmill.engine.mill import Mill
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

NewId = Callable[[], str]


def job_ended(mill: Mill, job_id: str, run: int, now: int, new_id: NewId) -> bool:
    """Handle a `Job Ended` event; return False if there is nothing left to notify."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or not job.state.ended or not job.heirs_pending:
        return False
    notify_dependents(mill, job, now, new_id)
    return True


def complete_end(mill: Mill, job: JobRow, now: int, new_id: NewId) -> JobRow:
    """Notify the dependents of a Job before it is deleted or run again: its event may arrive only later.

    Returns the Job as it is then.
    """
    if not job.state.ended or not job.heirs_pending:
        return job
    notify_dependents(mill, job, now, new_id)
    return mill.jobs.get(job.id) or job


def delete_job(mill: Mill, job: JobRow, actor: str, now: int, new_id: NewId, *, full: bool) -> None:
    """Delete a Job; what depends on its end goes on."""
    from shardmill.engine.control.delete import delete  # few requests and no events need it

    delete(mill, complete_end(mill, job, now, new_id), actor, now, full=full)
    if job.renews and not job.state.ended:
        _continue_schedule(mill, job, now, new_id)  # the deletion ended the Job


def notify_dependents(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    """Notify everything that depends on the end of a Job; idempotent.

    Each notification is tried even if another one fails. After a failure the next tick repeats all of them.
    """
    notifications = _notifications(mill, job, now, new_id)
    failed = 0
    for notify in notifications:
        try:
            notify()
        except (DefinitionSuspended, LimitReached):
            failed += 1
        except Exception:
            extra = {"action": "notify-dependents", "jobId": job.id, "run": job.run}
            logger.exception("failed to notify a dependent job; the next tick will retry", extra=extra)
            failed += 1
    if not failed:
        mill.jobs.dependents_notified(job)


def _notifications(mill: Mill, job: JobRow, now: int, new_id: NewId) -> list[Callable[[], object]]:
    notifications: list[Callable[[], object]] = []
    if job.with_dependents:
        notifications.append(partial(_take_dependents_along, mill, job, now))
    waiting = dict.fromkeys(mill.runs.waiting_for(job.job_name, job.moment))
    for child in mill.jobs.by_id(waiting).values() if waiting else ():
        notifications.append(
            partial(dependencies.check_dependencies, mill, child, now)
            if child.unmet
            else partial(mill.runs.delete_edges, child)
        )
    if job.state is JobState.SUCCESS:
        for name in mill.definitions.children(job.job_name):
            if name != job.job_name:
                notifications.append(partial(children.start_child, mill, job, name, now, new_id))
    if job.backfill or job.renews:
        notifications.append(partial(_continue_schedule, mill, job, now, new_id))
    return notifications


def _take_dependents_along(mill: Mill, job: JobRow, now: int) -> None:
    from shardmill.engine.control import dependents  # after a crash of the rerun, which few Jobs have

    dependents.take_dependents_along(mill, job, now)


def _continue_schedule(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    """Advance the backfill of a Job, or set the next time of a schedule with a fixed delay."""
    from shardmill.engine.schedules import backfill, fixed_delay  # import cron, which most Jobs do not need

    if job.backfill:
        backfill.advance(mill, (job.job_name, job.schedule_id, job.backfill), now, new_id)
    else:
        fixed_delay.job_ended(mill, job, now)
