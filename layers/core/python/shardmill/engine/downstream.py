"""What follows from a Job's end for others: Jobs that wait for it, children that it starts, its backfill."""

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
    """A Job ended, says the bus; False if it runs again, or everybody knows."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or not job.state.ended or not job.heirs_pending:
        return False
    notify_dependents(mill, job, now, new_id)
    return True


def notify_dependents(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    """Tell everybody whom the end of a Job concerns; all of it may be repeated.

    One that cannot be told now does not keep the others from it: the tick tells them all again.
    """
    tasks: list[Callable[[], object]] = []
    waiting = dict.fromkeys(mill.runs.waiting_for(job.job_name, job.moment))
    for child in mill.jobs.by_id(waiting).values() if waiting else ():
        tasks.append(
            partial(dependencies.check_dependencies, mill, child, now)
            if child.unmet
            else partial(_forget, mill, child)
        )
    if job.state is JobState.SUCCESS:
        for name in mill.definitions.children(job.job_name):
            if name != job.job_name:
                tasks.append(partial(_start_child, mill, job, name, now, new_id))
    if job.backfill:
        tasks.append(partial(_go_on, mill, job, now, new_id))
    failed = 0
    for task in tasks:
        try:
            task()
        except DefinitionSuspended:
            failed += 1
        except Exception:
            logger.exception("an heir was not told", extra={"action": "notify-dependents", "jobId": job.id})
            failed += 1
    if not failed:
        mill.jobs.dependents_notified(job)


def _forget(mill: Mill, child: JobRow) -> None:
    mill.runs.delete_edges(child)


def _go_on(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    from shardmill.engine.schedules import (
        backfill,  # cron is imported only for those who have to do with schedules
    )

    backfill.advance(mill, (job.job_name, job.schedule_id, job.backfill), now, new_id)


def _start_child(mill: Mill, parent: JobRow, name: str, now: int, new_id: NewId) -> None:
    """Make the one Job of a definition for a parent's dataTime; it may wait for other parents yet."""
    if next(mill.schedules.of_job(name), None) or any(
        mill.runs.between(name, parent.moment, parent.moment + 1)
    ):
        return
    moment = from_ms(parent.moment)
    trigger = moment.strftime(TRIGGER)
    if parent.moment % 1000:
        trigger += f"-{parent.moment % 1000:03d}"
    for wanted in (trigger, f"{trigger}-after-{parent.job_name}"[:MAX_NAME]):
        request = {"jobName": name, "trigger": wanted, "dataTime": moment.isoformat()}
        try:
            submit(mill, request, Actor(parent.submit_user), now=now, new_id=new_id)
        except TriggerTaken:
            continue  # by somebody's Job of another dataTime
        except (Transient, DefinitionSuspended):
            raise  # to be asked again
        except MillError as refused:
            # Nobody waits for an answer, and asking again would give the same.
            mill.bus.publish_best_effort(CHILD_REFUSED, _refusal(parent, name, refused))
            extra = {
                "action": "start-dependent",
                "jobName": name,
                "parentId": parent.id,
                "code": refused.code,
            }
            logger.warning(f"a child could not be started: {refused}", extra=extra)
        return


def _refusal(parent: JobRow, name: str, refused: MillError) -> dict[str, object]:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "jobName": name,
        "parentJobName": parent.job_name,
        "parentTrigger": parent.trigger,
        "dataTime": from_ms(parent.moment).isoformat(),
        "code": refused.code,
        "reason": str(refused)[:1000],
    }
