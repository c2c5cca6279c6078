"""Overlap of a schedule's Jobs: find the previous Job, and decide when the next time is compared with it."""

from __future__ import annotations

from shardmill.engine.mill import Mill
from shardmill.engine.schedules.catch_up import ON_TIME_MS
from shardmill.model.time.schedule import Schedule
from shardmill.store.rows import JobRow, ScheduleRow


def previous_job(mill: Mill, schedule: Schedule, row: ScheduleRow) -> JobRow | None:
    """Return the Job that the schedule started last, if it has not ended and `overlap` depends on it."""
    if schedule.overlap == "allow" or not row.last_job:
        return None
    job = mill.jobs.get(row.last_job)
    return job if job and not job.state.ended else None


def turn_of(schedule: Schedule, time: int, previous: JobRow | None) -> int:
    """Return when a time is compared with the previous Job, which has not ended.

    A tick finds all times of a minute together. If the previous Job started after its time, the next time is
    compared with the same delay, so that the Job has the whole interval to end. For example, a tick at
    00:01:00 starts the Job of 00:00:30; 00:01:00 is compared at 00:01:30.
    """
    if not previous or schedule.overlap == "queue":
        return time
    # A Job of an outage or of a manual firing can be far from its time; no time waits that long.
    delay = previous.create_time - previous.moment
    return time + delay if 0 < delay <= ON_TIME_MS else time
