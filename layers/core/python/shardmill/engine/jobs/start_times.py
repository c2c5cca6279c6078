"""When a new Job starts and by when it must end: the time of its request, dependencies and deadline."""

from __future__ import annotations

from typing import Any

from shardmill.engine.jobs.dependencies import START_GRACE_MS, waits_for, waits_until
from shardmill.model.definition.fields import JobDefine
from shardmill.model.history import ENGINE, Change
from shardmill.model.states import JobState
from shardmill.model.time.deadline import deadline
from shardmill.store.rows import JobRow


def start_due(job: JobRow, now: int) -> int:
    """Return when the tick checks a new Job that was not started by then."""
    start = _start_time(job, now)
    return now + START_GRACE_MS if start is None or job.files_pending else start


def _start_time(job: JobRow, now: int) -> int | None:
    """Return the time that a Job waits for, if it has not come yet."""
    return job.not_before if job.not_before is not None and job.not_before > now else None


def waiting(job: JobRow, expected: list[dict[str, Any]], expires: int, now: int) -> JobRow:
    """Return the Job as it waits for other Jobs or for its time, or unchanged if it can start at once."""
    start = _start_time(job, now)
    if not expected and start is None:
        return job
    notes = waits_until(start) if start else waits_for(expected)
    change = Change(now, JobState.WAITING.value, job.run, ENGINE, notes if start else "waits for other jobs")
    return job.evolve(
        expected=expected,
        state=JobState.WAITING,
        unmet=True,
        expires=expires + (start - now if start else 0),
        notes=notes,
        history=[*job.history, change.encode()],
    )


def with_deadline(job: JobRow, define: JobDefine, start: int) -> JobRow:
    """Set the deadline; a time of day applies only to jobs of a schedule, which has a time zone."""
    seconds = job.request.get("deadlineSeconds", define.deadline_seconds)
    time_of_day = (define.deadline_time or "") if job.schedule_id else ""
    at = deadline(start, seconds, time_of_day, job.timezone)
    return job.evolve(
        deadline_seconds=seconds,
        deadline_time=time_of_day,
        deadline=at,
        on_deadline=define.on_deadline if at is not None else "",
    )
