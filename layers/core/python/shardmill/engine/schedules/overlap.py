"""Overlap of a schedule's Jobs: find the previous Job, and decide when the next time is compared with it."""

from __future__ import annotations

from shardmill.engine.mill import Mill
from shardmill.engine.schedules.catch_up import ON_TIME_MS
from shardmill.model.time.schedule import Schedule
from shardmill.store.rows import JobRow, ScheduleRow

PUNCTUAL_MS = 2_000
"""A Job that started within this time is not late."""


def previous_job(mill: Mill, schedule: Schedule, row: ScheduleRow) -> JobRow | None:
    """Return the Job that the schedule started last, if it has not ended and `overlap` depends on it."""
    if schedule.overlap == "allow" or not row.last_job:
        return None
    job = mill.jobs.get(row.last_job)
    return job if job and not job.state.ended else None


def turn_of(schedule: Schedule, time: int, previous: JobRow | None) -> int:
    """Return when a time is compared with the previous Job, which has not ended.

    If the previous Job started late, the next time is compared with the same delay, so that the Job has the
    whole interval to end. For example, a tick at 00:01:00 starts the Job of 00:00:30, whose message was lost;
    00:01:00 is compared at 00:01:30.
    """
    if not previous or schedule.overlap == "queue":
        return time
    # A Job of an outage or of a manual firing can be far from its time; no time waits that long.
    delay = previous.create_time - previous.moment
    return time + delay if PUNCTUAL_MS < delay <= ON_TIME_MS else time
