"""Handle the end of a Job: release the Jobs that wait for it, start child Jobs, advance its backfill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.errors import Busy, DefinitionSuspended
from shardmill.engine.jobs import children, dependencies
from shardmill.engine.mill import Mill
from shardmill.model.errors import Transient
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

NewId = Callable[[], str]
Notification = tuple[str, int, Callable[[], object]]
"""The position of a dependent, about how many AWS calls its notification takes, and the notification."""

COMPLETION_CALLS = 1_500
"""The AWS calls that a request spends on the dependents of a Job: about ten seconds."""
TRANSIENT = (ClientError, BotoCoreError, Transient)
_CHECK_CALLS = 5
_START_CALLS = 10
_PAGE = 25
_WAITING = "waiting"
_CHILDREN = "child"
_START = "-"


def job_ended(mill: Mill, job_id: str, run: int, now: int, new_id: NewId) -> bool:
    """Handle a `Job Ended` event; return False if no notification remains."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or not job.state.ended or not job.heirs_pending:
        return False
    notify_dependents(mill, job, now, new_id, Budget.of_slice())
    return True


def complete_end(mill: Mill, job: JobRow, now: int, new_id: NewId) -> JobRow:
    """Notify the dependents of a Job before it is deleted or run again: its event may arrive only later.

    Returns the Job as it is then. Raises Busy if not all of them could be notified now: they must see the
    Job's success. Children whose definitions are suspended are started later, even if the Job is deleted.
    """
    if not job.state.ended or not job.heirs_pending:
        return job
    if not notify_dependents(mill, job, now, new_id, Budget(COMPLETION_CALLS)):
        named = f"{job.job_name}/{job.trigger}"
        raise Busy(f"the jobs that depend on {named} are being notified of its end; retry")
    return mill.jobs.get(job.id) or job


def delete_job(mill: Mill, job: JobRow, actor: str, now: int, new_id: NewId, *, full: bool) -> None:
    """Delete a Job, after its dependents were notified of its end."""
    from shardmill.engine.control.delete import delete  # few requests and no events need it

    delete(mill, complete_end(mill, job, now, new_id), actor, now, full=full)
    if job.renews and not job.state.ended:
        _continue_schedule(mill, job, now, new_id)  # the deletion ended the Job


def notify_dependents(mill: Mill, job: JobRow, now: int, new_id: NewId, budget: Budget | None = None) -> bool:
    """Notify everything that depends on the end of a Job, as far as the budget allows; idempotent.

    Each notification is tried even if another one fails. After a failure the next tick continues with the
    first that failed. Returns False if some could not be notified that can be soon.
    """
    progress = _Progress(job)
    for position, calls, notify in _notifications(mill, job, now, new_id):
        if budget and budget.spent:
            mill.jobs.note_notified(job, progress.stored())
            continue_soon(mill, job.id, now)
            return False
        try:
            notify()
        except (DefinitionSuspended, LimitReached):
            progress.failed()
        except Exception as error:
            extra = {"action": "notify-dependents", "jobId": job.id, "run": job.run}
            logger.exception("failed to notify a dependent job; the next tick will retry", extra=extra)
            progress.failed(soon=isinstance(error, TRANSIENT))
        progress.position = position
        if budget:
            budget.spend(calls)
    if not progress.failed_from:
        mill.jobs.dependents_notified(job)
    elif progress.restart() != job.notifying:
        mill.jobs.note_notified(job, progress.restart())
    return not progress.retry_soon


class _Progress:
    """How far the dependents of a Job were notified.

    A position is the one of the last dependent reached, in the order of `_notifications`.
    """

    def __init__(self, job: JobRow) -> None:
        self.position = job.notifying.get("to", "")
        self.failed_from = job.notifying.get("failed", "")
        self.retry_soon = False

    def failed(self, *, soon: bool = False) -> None:
        """Begin the next pass after the present position, unless an earlier dependent failed."""
        self.failed_from = self.failed_from or self.position or _START
        self.retry_soon |= soon

    def stored(self) -> dict[str, str]:
        return {"to": self.position} | ({"failed": self.failed_from} if self.failed_from else {})

    def restart(self) -> dict[str, str]:
        return {} if self.failed_from == _START else {"to": self.failed_from}


def _notifications(mill: Mill, job: JobRow, now: int, new_id: NewId) -> Iterator[Notification]:
    """Return the notifications after the position that an earlier call reached."""
    kind, _, after = job.notifying.get("to", "").partition(":")
    if not kind:
        if job.with_dependents:
            yield "", _CHECK_CALLS, partial(_take_dependents_along, mill, job, now)
        if job.backfill or job.renews:
            yield "", _START_CALLS, partial(_continue_schedule, mill, job, now, new_id)
    if kind != _CHILDREN:
        yield from _waiting_jobs(mill, job, after, now)
    if job.state is JobState.SUCCESS or job.owed:
        for name in mill.definitions.children(job.job_name, after=after if kind == _CHILDREN else ""):
            if name != job.job_name:
                start = partial(children.start_child, mill, job, name, now, new_id)
                yield f"{_CHILDREN}:{name}", _START_CALLS, start


def _waiting_jobs(mill: Mill, job: JobRow, after: str, now: int) -> Iterator[Notification]:
    waiting = mill.runs.waiting_for(job.job_name, job.moment, after=after)
    while page := list(islice(waiting, _PAGE)):
        rows = mill.jobs.by_id(child for _, child in page)
        for position, child_id in page:
            if child := rows.pop(child_id, None):
                check = partial(dependencies.check_dependencies, mill, child, now)
                notify = check if child.unmet else partial(mill.runs.delete_edges, child)
                yield f"{_WAITING}:{position}", _CHECK_CALLS, notify


def _take_dependents_along(mill: Mill, job: JobRow, now: int) -> None:
    from shardmill.engine.control import dependents  # only after a crash of a rerun

    dependents.take_dependents_along(mill, job, now)


def _continue_schedule(mill: Mill, job: JobRow, now: int, new_id: NewId) -> None:
    """Advance the backfill of a Job, or set the next time of a schedule with a fixed delay."""
    from shardmill.engine.schedules import backfill, fixed_delay  # import cron, which most Jobs do not need

    if job.backfill:
        backfill.advance(mill, (job.job_name, job.schedule_id, job.backfill), now, new_id)
    else:
        fixed_delay.job_ended(mill, job, now)
