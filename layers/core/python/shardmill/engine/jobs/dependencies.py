"""What a Job with dependencies waits for: runs of its parents, fixed when it is made.

The Job and its edges are written before it looks at its parents; a parent writes its end before it looks for
edges. So one of the two sees the other, and the tick looks again all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.errors import (
    RequestInvalid,
)
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.model.base import from_ms, to_ms
from shardmill.model.definition.fields import Dependency, JobDefine
from shardmill.model.errors import Transient
from shardmill.model.fault import Fault, fault
from shardmill.model.states import JobState
from shardmill.model.time.dependency_window import bounds
from shardmill.store.rows import JobRow

MAX_EXPECTED = 1_000
MOST_NAMED = 5
NO_SCHEDULE = ""
START_GRACE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is expected of a parent: at which time, and the Job that it is, if there is one."""

    parent: str
    strategy: str
    time: int | None
    job: JobRow | None

    @property
    def done(self) -> bool:
        return self.job is not None and self.job.state is JobState.SUCCESS


def expected_runs(mill: Mill, define: JobDefine, job: JobRow) -> list[dict[str, Any]]:
    """What a new Job will wait for, as its row keeps it; raises if that cannot be said."""
    faults: list[Fault] = []
    found: list[dict[str, Any]] = []
    for dependency in define.dependencies:
        if dependency.window is None and job.data_time is None:
            text = f"is required: the Job waits for that of {dependency.job_name!r} with the same dataTime"
            faults.append(fault(("dataTime",), "missing-field", text))
            continue
        start, end, times = _times(mill, dependency, job)
        found.append(
            {
                "jobName": dependency.job_name,
                "strategy": dependency.strategy,
                "from": start,
                "to": end,
                "times": times,
            }
        )
    if sum(len(listed) for each in found for listed in (each["times"] or {}).values()) > MAX_EXPECTED:
        text = f"expects more than {MAX_EXPECTED} runs of its parents; make the windows narrower"
        faults.append(fault(("dataTime",), "window-too-wide", text))
    if faults:
        unique = {each.message: each.model_dump() for each in faults}
        raise RequestInvalid("the Job's dependencies cannot be told", faults=list(unique.values()))
    return found


def _times(mill: Mill, dependency: Dependency, job: JobRow) -> tuple[int, int, dict[str, list[int]] | None]:
    """The bounds of a window, and when the parent's schedules are to run in it, if it has any."""
    if dependency.window is None:
        return job.moment, job.moment + 1, {NO_SCHEDULE: [job.moment]}
    from shardmill.model.time.schedule import Schedule  # imports cron, which only windows need

    rows = [row for row in mill.schedules.of_job(dependency.job_name) if row.status == 1]
    schedules = [Schedule.model_validate(row.document) for row in rows]
    zone = job.timezone or next((each.timezone for each in schedules), "UTC")
    start, end = bounds(dependency.window, from_ms(job.moment), zone)
    if not schedules:
        return to_ms(start), to_ms(end), None
    times = {
        each.schedule_id: [to_ms(t) for t in islice(each.timetable.times(start, end), MAX_EXPECTED + 1)]
        for each in schedules
    }
    return to_ms(start), to_ms(end), times


def runs(mill: Mill, job: JobRow) -> list[list[Run]]:
    """The runs that a Job waits for, of each of its dependencies, and how far they are."""
    return [list(_runs_of(mill, each)) for each in job.expected]


def _runs_of(mill: Mill, expected: dict[str, Any]) -> Iterator[Run]:
    parent, strategy, times = expected["jobName"], expected["strategy"], expected["times"]
    start, end = expected["from"], expected["to"]
    found = _jobs_between(mill, parent, start, end)
    if times is None:
        listed = [(time, NO_SCHEDULE) for time in sorted(found)]
    else:
        listed = sorted((time, name) for name, each in times.items() for time in each)
        if strategy == "any":  # a run by hand is as good
            listed += [(time, NO_SCHEDULE) for time in sorted(found.keys() - {time for time, _ in listed})]
    skips = {
        name: mill.schedules.skips(parent, name, start, end)
        for name in {name for time, name in listed if name and not _best(found.get(time, []), name)}
    }
    for time, name in listed:
        job = _best(found.get(time, []), name)
        if job or not any(first <= time <= last for first, last in skips.get(name, ())):
            yield Run(parent, strategy, time, job)
    if not listed and times is None:
        yield Run(parent, strategy, None, None)


def _jobs_between(mill: Mill, parent: str, start: int, end: int) -> dict[int, list[JobRow]]:
    places = list(islice(mill.runs.between(parent, start, end), 2 * MAX_EXPECTED))
    jobs = mill.jobs.by_id([job_id for _, job_id in places]) if places else {}
    found: dict[int, list[JobRow]] = {}
    for time, job_id in places:
        job = jobs.get(job_id)
        if job and job.state is not JobState.DELETED:
            found.setdefault(time, []).append(job)
    return found


def _best(jobs: Sequence[JobRow], schedule_id: str) -> JobRow | None:
    """Of the Jobs of one time, the one that counts for a schedule: its own or one by hand, success first."""
    own = [job for job in jobs if not schedule_id or job.schedule_id in (schedule_id, NO_SCHEDULE)]
    return next((job for job in own if job.state is JobState.SUCCESS), own[-1] if own else None)


def met(expected: Sequence[Run]) -> bool:
    """Whether the runs of one dependency are as its strategy wants them."""
    if not expected:
        return True
    strategy = expected[0].strategy
    if strategy == "any":
        return any(run.done for run in expected)
    if strategy.startswith("last:"):
        wanted = int(strategy.removeprefix("last:"))
        return all(run.done for run in expected[-wanted:])
    return all(run.done for run in expected)


def check_dependencies(mill: Mill, job: JobRow, now: int) -> bool:
    """See whether a waiting Job has all it waits for, and start it then; whether it waits no longer."""
    found = runs(mill, job)
    lacking = [run for each in found if not met(each) for run in each if not run.done]
    if not lacking:
        if mill.jobs.dependencies_met(job, now=now, due=now + RECHECK_MS):
            mill.machines.start_job(job.id, job.run)
            mill.runs.delete_edges(job)
        return True
    notes = _notes(lacking)
    assert job.expires is not None
    if job.expires <= now:
        from shardmill.engine.running.finish import expire

        expire(mill, job, f"expired: {notes}", now)
        return True
    if notes != job.notes:
        mill.jobs.note_waiting(job, notes, now=now, due=min(now + RECHECK_MS, job.expires))
    return False


def _notes(lacking: Sequence[Run]) -> str:
    named = [_in_words(run) for run in sorted(lacking, key=lambda run: run.job is None)[:MOST_NAMED]]
    more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
    return f"waits for {', '.join(named)}{more}"


def _in_words(run: Run) -> str:
    if run.job:
        return f"{run.parent}/{run.job.trigger} ({run.job.state})"
    if run.time is None:
        return f"a run of {run.parent}"
    return f"{run.parent} of {from_ms(run.time).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def start_job(mill: Mill, job: JobRow, now: int) -> None:
    """The Job is written: if it cannot be started now, the tick will."""
    try:
        if job.unmet:
            check_dependencies(mill, job, now)
        else:
            mill.machines.start_job(job.id, job.run)
    except (ClientError, BotoCoreError, Transient):
        logger.exception("the tick will start this job", extra={"action": "start-execution", "jobId": job.id})
