"""Schedules with `delaySeconds`: the next time comes after the end of the Job that the last one started.

While that Job runs, the row names it (`awaits`), and its `next` is when the tick checks the Job, in case the
event of its end was lost.
"""

from __future__ import annotations

from shardmill.engine.conflict import Attempts
from shardmill.engine.mill import Mill
from shardmill.engine.schedules.catch_up import Decision
from shardmill.engine.schedules.hand_over import hand_over_saved
from shardmill.model.time.schedule import Schedule
from shardmill.model.time.timetable import end_instant, first_instant
from shardmill.model.timestamps import from_ms, to_ms
from shardmill.store.rows import JobRow, ScheduleRow

CHECK_MS = 3_600_000


def first_time(schedule: Schedule, now: int) -> int | None:
    """Return the time of the first Job: at once, or at the start of the schedule."""
    start = to_ms(first_instant(schedule.start_date, schedule.zone)) if schedule.start_date else now
    return _within(schedule, max(now, start), 0)


def decide(schedule: Schedule, time: int, fired: int) -> Decision:
    """Decide on the due time: it fires even if it is late. If it starts no Job, the delay counts from it."""
    return Decision(time, _after(schedule, time, fired))


def awaiting(row: ScheduleRow, job: JobRow, now: int) -> ScheduleRow:
    """Return the row of a schedule that has started a Job."""
    return row.evolve(next=now + CHECK_MS, awaits=job.id, fired=row.fired + 1)


def renew(mill: Mill, row: ScheduleRow, now: int) -> ScheduleRow | None:
    """Set the next time if the Job has ended or was removed; None if another process changed the schedule."""
    job = mill.jobs.get(row.awaits)
    if job and not job.state.ended:
        return mill.schedules.change(row, row.evolve(next=now + CHECK_MS))
    schedule = Schedule.model_validate(row.document)
    end = job.completed_time if job and job.completed_time else now
    changed = mill.schedules.change(row, row.evolve(next=_after(schedule, end, row.fired), awaits=""))
    if changed:
        hand_over_saved(mill, changed, now)
    return changed


def job_ended(mill: Mill, job: JobRow, now: int) -> None:
    """Set the next time of the schedule that waits for the end of a Job; no-op if none does."""
    attempts = Attempts(f"the schedule {job.schedule_id!r} of {job.job_name!r}")
    while True:
        attempts.begin()
        row = mill.schedules.get(job.job_name, job.schedule_id)
        if not row or row.awaits != job.id or renew(mill, row, now):
            return


def _after(schedule: Schedule, moment: int, fired: int) -> int | None:
    assert schedule.delay_seconds is not None
    return _within(schedule, moment + schedule.delay_seconds * 1000, fired)


def _within(schedule: Schedule, time: int, fired: int) -> int | None:
    """Return a time, rounded up to a second; None if it is after the last one."""
    time = -(-time // 1000) * 1000
    if schedule.max_times is not None and fired >= schedule.max_times:
        return None
    if schedule.end_date and from_ms(time) >= end_instant(schedule.end_date, schedule.zone):
        return None
    return time
