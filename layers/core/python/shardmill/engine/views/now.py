"""The overview of a deployment in one answer: running, failed and ended Jobs, groups, coming firings."""

from __future__ import annotations

from itertools import islice

from pydantic import Field

from shardmill.engine import dead_letters
from shardmill.engine.access.visible import Visible
from shardmill.engine.mill import Mill
from shardmill.engine.schedules import manage
from shardmill.engine.views.jobs import summary
from shardmill.engine.views.workers import worker_view
from shardmill.model.base import Answer
from shardmill.model.groups.group import GroupKind
from shardmill.model.job import Job
from shardmill.model.states import JobState
from shardmill.model.time.schedule import SavedSchedule
from shardmill.model.worker import WorkerStatus

MAX_LIVE = 50
MAX_RECENT = 500
MAX_WORKERS = 500
MAX_GROUPS = 100
MAX_SCHEDULES = 200
MAX_LETTERS = 100
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LIVE = (JobState.RUNNING, JobState.QUEUED, JobState.WAITING, JobState.SUSPENDED)


class LiveJobs(Answer):
    items: list[Job]
    more: bool = Field(description="whether there are more in this state")


class GroupActivity(Answer):
    """A worker group and the tasks of its live workers."""

    name: str
    kind: GroupKind
    suspended: str | None = None
    online: int = 0
    slots: int = 0
    held: int = Field(default=0, description="tasks that its workers hold")


class DeadLetterCount(Answer):
    """How many dead letters are stored, and whether the queues hold others."""

    stored: int = Field(description=f"at most {MAX_LETTERS}")
    new: bool = Field(description="whether the dead-letter queues hold letters that no list has shown yet")


class Now(Answer):
    """An overview of the deployment."""

    live: dict[str, LiveJobs] = Field(description="by state, newest first")
    failed: list[Job] = Field(description="among the newest Jobs, the ones that failed within a day")
    ended: list[Job] = Field(description="among the newest Jobs, the ones that ended within an hour")
    ended_more: bool = Field(description="whether older Jobs were omitted")
    groups: list[GroupActivity]
    dead_letters: DeadLetterCount | None = Field(
        default=None, description="for tokens with the scope operate without limits"
    )
    schedules: list[SavedSchedule] = Field(description="schedules that will fire, the next one first")


def overview(mill: Mill, now: int, visible: Visible, operates: bool = False) -> Now:
    """Return the overview of the resources that the caller may see; the number of rows that it reads is
    limited.

    `operates`: whether the caller may operate the whole deployment.
    """
    newest = mill.jobs.page(job_name=None, state=None, before=None, limit=MAX_RECENT)
    recent = [job for job in islice(newest, MAX_RECENT) if visible.job(job)]
    ended = [job for job in recent if job.completed_time and job.completed_time > now - DAY_MS]
    rows = visible.of_definitions(mill.schedules.page(after=None, limit=MAX_SCHEDULES))
    schedules = [manage.view(row, history=0) for row, seen in rows if seen]
    waiting = [schedule for schedule in schedules if schedule.next_time]
    return Now(
        live={state.value: _live(mill, state, visible) for state in LIVE},
        failed=[summary(job) for job in ended if job.state is JobState.FAILED][:MAX_LIVE],
        ended=[summary(job) for job in ended if (job.completed_time or 0) > now - HOUR_MS],
        ended_more=len(recent) == MAX_RECENT,
        groups=_groups(mill, now, visible),
        dead_letters=_dead_letters(mill) if operates else None,
        schedules=sorted(waiting, key=lambda each: str(each.next_time))[:20],
    )


def _live(mill: Mill, state: JobState, visible: Visible) -> LiveJobs:
    limit = MAX_LIVE + 1
    chunk, scanned = (limit, limit) if visible.all else (MAX_RECENT, MAX_RECENT)
    rows = islice(mill.jobs.page(job_name=None, state=state, before=None, limit=chunk), scanned)
    found = list(islice(filter(visible.job, rows), limit))
    return LiveJobs(items=[summary(job) for job in found[:MAX_LIVE]], more=len(found) == limit)


def _groups(mill: Mill, now: int, visible: Visible) -> list[GroupActivity]:
    rows = islice(mill.groups.page(after=None, limit=MAX_GROUPS), MAX_GROUPS)
    every = mill.groups.every_group().suspended
    found = {
        row.name: GroupActivity(name=row.name, kind=row.kind, suspended=row.suspended or every or None)
        for row in rows
        if visible.groups([row.name])
    }
    for row in islice(mill.workers.page(after=None, limit=MAX_WORKERS), MAX_WORKERS):
        worker = worker_view(mill, row, now)
        for name in worker.groups if worker.status is WorkerStatus.ONLINE else ():
            if name in found:
                found[name].online += 1
                found[name].slots += worker.slots
                found[name].held += worker.remain_tasks
    return list(found.values())


def _dead_letters(mill: Mill) -> DeadLetterCount:
    stored = sum(1 for _ in islice(mill.dead_letters.page(after=None, limit=MAX_LETTERS), MAX_LETTERS))
    return DeadLetterCount(stored=stored, new=dead_letters.any_in_queues(mill))
