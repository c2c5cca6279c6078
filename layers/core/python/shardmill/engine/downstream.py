"""Handle the end of a Job: release the Jobs that wait for it, start child Jobs, advance its backfill."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardmill.aws.observability import logger
from shardmill.engine.errors import DefinitionSuspended, MillError, TriggerTaken
from shardmill.engine.jobs import dependencies
from shardmill.engine.jobs.submit import submit
from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import SCHEMA_VERSION
from shardmill.model.actor import Actor
from shardmill.model.base import MAX_NAME, from_ms
from shardmill.model.errors import Transient
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

TRIGGER = "%Y%m%dT%H%M%SZ"
CHILD_REFUSED = "Child Refused"

NewId = Callable[[], str]


def job_ended(mill: Mill, job_id: str, run: int, now: int, new_id: NewId) -> bool:
    """Handle a `Job Ended` event; return False if there is nothing left to notify."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or not job.state.ended or not job.heirs_pending:
        return False
    notify_dependents(mill, job, now, new_id)
    return True


def notify_dependents(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    """Notify everything that depends on the end of a Job; idempotent.

    Each notification is tried even if another one fails. After a failure the next tick repeats all of them.
    """
    notifications: list[Callable[[], object]] = []
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
                notifications.append(partial(_start_child, mill, job, name, now, new_id))
    if job.backfill:
        notifications.append(partial(_advance_backfill, mill, job, now, new_id))
    failed = 0
    for notify in notifications:
        try:
            notify()
        except DefinitionSuspended:
            failed += 1
        except Exception:
            extra = {"action": "notify-dependents", "jobId": job.id, "run": job.run}
            logger.exception("failed to notify a dependent job; the next tick will retry", extra=extra)
            failed += 1
    if not failed:
        mill.jobs.dependents_notified(job)


def _advance_backfill(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    from shardmill.engine.schedules import backfill  # imports cron, which most Jobs do not need

    backfill.advance(mill, (job.job_name, job.schedule_id, job.backfill), now, new_id)


def _start_child(mill: Mill, parent: JobRow, name: str, now: int, new_id: NewId) -> None:
    """Submit the child Job for the parent's dataTime, unless it exists; it may wait for other parents."""
    if next(mill.schedules.of_job(name), None) or any(
        mill.runs.between(name, parent.moment, parent.moment + 1)
    ):
        return
    moment = from_ms(parent.moment)
    trigger = moment.strftime(TRIGGER)
    if parent.moment % 1000:
        trigger += f"-{parent.moment % 1000:03d}"
    for candidate in (trigger, f"{trigger}-after-{parent.job_name}"[:MAX_NAME]):
        request = {"jobName": name, "trigger": candidate, "dataTime": moment.isoformat()}
        try:
            submit(mill, request, Actor(parent.submit_user), now=now, new_id=new_id)
        except TriggerTaken:
            continue  # by a Job with another dataTime
        except (Transient, DefinitionSuspended):
            raise  # the next tick will retry
        except MillError as error:
            # A retry would be rejected again, and there is no caller to report this to.
            mill.bus.publish_best_effort(CHILD_REFUSED, _refusal(parent, name, error))
            extra = {
                "action": "start-dependent",
                "jobName": name,
                "parentId": parent.id,
                "code": error.code,
            }
            logger.warning(f"child job rejected; it will not start: {error}", extra=extra)
        return


def _refusal(parent: JobRow, name: str, error: MillError) -> dict[str, object]:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "jobName": name,
        "parentJobName": parent.job_name,
        "parentTrigger": parent.trigger,
        "dataTime": from_ms(parent.moment).isoformat(),
        "code": error.code,
        "reason": str(error)[:1000],
    }
