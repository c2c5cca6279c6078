"""What follows from a Job's end for others: Jobs that wait for it, children that it starts, its backfill."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.aws.observe import logger
from shardmill.engine import backfill, expect
from shardmill.engine.errors import MillError
from shardmill.engine.mill import Mill
from shardmill.engine.submit import submit
from shardmill.model.actor import Actor
from shardmill.model.base import from_ms
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

TRIGGER = "%Y%m%dT%H%M%SZ"


def ended(mill: Mill, job_id: str, run: int, now: int, new_id: Callable[[], str]) -> bool:
    """A Job ended, says the bus; False if it runs again, or everybody knows."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or not job.state.ended or not job.heirs_pending:
        return False
    told_of_end(mill, job, now, new_id)
    return True


def told_of_end(mill: Mill, job: JobRow, now: int, new_id: Callable[[], str]) -> None:
    """Tell everybody whom the end of a Job concerns; all of it may be repeated."""
    waiting = dict.fromkeys(mill.runs.waiting_for(job.job_name, job.moment))
    for child in mill.jobs.by_id(waiting).values() if waiting else ():
        if child.unmet:
            expect.look(mill, child, now)
        else:
            mill.runs.forget_edges(child)
    if job.state is JobState.SUCCESS:
        for name in mill.definitions.children(job.job_name):
            if not next(mill.schedules.of_job(name, limit=1), None):
                _start_child(mill, job, name, now, new_id)
    if job.backfill:
        backfill.go_on(mill, (job.job_name, job.schedule_id, job.backfill), now, new_id)
    mill.jobs.heirs_told(job)


def _start_child(mill: Mill, parent: JobRow, name: str, now: int, new_id: Callable[[], str]) -> None:
    """Make the one Job of a definition for a parent's dataTime; it may wait for other parents yet."""
    moment = from_ms(parent.moment)
    request = {"jobName": name, "trigger": moment.strftime(TRIGGER), "dataTime": moment.isoformat()}
    try:
        submit(mill, request, Actor(parent.submit_user), now=now, new_id=new_id)
    except MillError as refused:
        # Nobody waits for an answer; asking again would give the same.
        extra = {"action": "start-child", "jobName": name, "parentId": parent.id, "code": refused.code}
        logger.warning(f"a child could not be started: {refused}", extra=extra)
