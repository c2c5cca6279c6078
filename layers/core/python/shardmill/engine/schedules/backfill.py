"""Backfills: one Job for each of a schedule's past times, so many at once, until all have been.

What a backfill does is repeated freely: a Job is known by its trigger, so nobody makes it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from shardmill.aws.observability import logger
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import BackfillNotFound, Busy, MillError
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.schedules import fire, manage
from shardmill.model.actor import Actor
from shardmill.model.base import from_ms, to_ms
from shardmill.model.fault import Fault, fault
from shardmill.model.states import JobState
from shardmill.model.time.schedule import MAX_TIMES, Backfill, BackfillRequest, Schedule, short
from shardmill.store.rows import BackfillRow, JobRow, ScheduleRow

MOST_AT_ONCE = 200  # times that one visit looks at; the next one goes on
_TRIES = 6
_HELD = "waits until its definition is resumed"
Key = tuple[str, str, int]
NewId = Callable[[], str]


def begin(
    mill: Mill, row: ScheduleRow, request: BackfillRequest, actor: Actor, now: int, new_id: NewId
) -> BackfillRow:
    """Start a backfill of a schedule's times."""
    times = _times(manage.schedule_of(row), request, now)
    if request.order == "desc":
        times.reverse()
    attempts = Attempts(f"the list of backfills of the schedule {row.id!r}")
    while True:
        attempts.begin()
        newest = next(mill.schedules.backfills(row.job_name, row.id, limit=1), None)
        backfill = BackfillRow(
            job_name=row.job_name,
            schedule_id=row.id,
            number=newest.number + 1 if newest else 1,
            state="RUNNING",
            create_time=now,
            update_time=now,
            user=actor.name,
            times=times,
            parallel=request.parallel,
            force=request.force,
        )
        if mill.schedules.add_backfill(backfill, due=now + RECHECK_MS):
            return advance(mill, _key(backfill), now, new_id) or backfill


def _times(schedule: Schedule, request: BackfillRequest, now: int) -> list[int]:
    """The times that are to be run, in order; raises everything that is wrong with the request."""
    faults: list[Fault] = []
    spans: list[tuple[tuple[str | int, ...], datetime, datetime]] = []
    if request.from_ is not None and request.to is not None:
        bounds = [_span(request.from_, schedule.timezone), _span(request.to, schedule.timezone)]
        for name, span in zip(("from", "to"), bounds, strict=True):
            if not span:
                faults.append(fault((name,), "bad-time", "must be a date or an RFC 3339 time"))
        if bounds[0] and bounds[1]:
            spans.append(((), bounds[0][0], bounds[1][0]))
            if bounds[1][0] <= bounds[0][0]:
                faults.append(fault((), "end-before-start", "to must be after from"))
    for at, text in enumerate(request.times):
        span = _span(text, schedule.timezone)
        if span:
            spans.append((("times", at), *span))
        else:
            faults.append(fault(("times", at), "bad-time", "must be a date or an RFC 3339 time"))
    if faults:
        raise manage.invalid("the backfill is not valid", faults)
    return _in_spans(schedule, spans, now)


def _in_spans(schedule: Schedule, spans: Sequence[tuple[Any, datetime, datetime]], now: int) -> list[int]:
    found: set[int] = set()
    faults: list[Fault] = []
    for where, first, end in spans:
        left = MAX_TIMES + 1 - len(found)
        times = [to_ms(time) for time in islice(schedule.timetable.times(first, end), left)]
        if not times:
            text = "the schedule has no time there; see its startDate and endDate"
            faults.append(fault(where, "no-times", text))
        elif times[-1] > now:
            faults.append(fault(where, "future-time", "is not over yet: a backfill runs the past"))
        found.update(times)
    if len(found) > MAX_TIMES:
        text = f"a backfill has {MAX_TIMES} times at most; make several of it"
        faults = [fault((), "too-many-times", text)]
    if faults:
        raise manage.invalid("the backfill is not valid", faults)
    return sorted(found)


def _span(text: str, timezone: str) -> tuple[datetime, datetime] | None:
    """A date is that whole day in the schedule's zone, a time that instant; anything else is nothing."""
    zone = ZoneInfo(timezone)
    try:
        if len(text) <= 10:
            day = datetime.combine(date.fromisoformat(text), datetime.min.time())
            return day.replace(tzinfo=zone), (day + timedelta(days=1)).replace(tzinfo=zone)
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment, moment + timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


@dataclass(slots=True)
class _Visit:
    """How far one look at a backfill has come."""

    at: int
    running: list[str]
    success: int
    failed: int
    skipped: int
    notes: str

    def count(self, job: JobRow | None) -> None:
        if job and job.state is JobState.SUCCESS:
            self.success += 1
        else:
            self.failed += 1
            self.notes = f"the last that failed: {job.trigger} ({job.state})" if job else "a Job was removed"


def advance(mill: Mill, key: Key, now: int, new_id: NewId) -> BackfillRow | None:
    """See which Jobs of a backfill have ended and start the next; the backfill as it is then."""
    for _ in range(_TRIES):
        backfill = mill.schedules.backfill(*key)
        if not backfill or (
            backfill.state == "DONE" or (backfill.state == "STOPPED" and not backfill.running)
        ):
            return backfill
        visit = _visit(mill, backfill, now, new_id)
        more = backfill.state == "RUNNING" and visit.at < len(backfill.times)
        state = backfill.state if more or visit.running or backfill.state == "STOPPED" else "DONE"
        open_ = bool(visit.running) or (more and state == "RUNNING")
        changed = mill.schedules.change_backfill(
            backfill,
            due=now + RECHECK_MS if open_ else None,
            state=state,
            at=visit.at,
            running=visit.running,
            success=visit.success,
            failed=visit.failed,
            skipped=visit.skipped,
            notes=visit.notes or None,
            update_time=now,
        )
        if changed and len(visit.running) < backfill.parallel and more and visit.at > backfill.at:
            continue  # it stopped only because it looked at enough times for one visit
        if changed:
            return changed
    return mill.schedules.backfill(*key)


def _visit(mill: Mill, backfill: BackfillRow, now: int, new_id: NewId) -> _Visit:
    b = backfill
    visit = _Visit(b.at, [], b.success, b.failed, b.skipped, b.notes)
    known = mill.jobs.by_id(b.running) if b.running else {}
    for job_id in b.running:
        job = known.get(job_id)
        if job and not job.state.ended:
            visit.running.append(job_id)
        else:
            visit.count(job)
    row = mill.schedules.get(b.job_name, b.schedule_id)
    if not row and b.state == "RUNNING":
        visit.notes = f"the schedule was deleted before {len(b.times) - b.at} of its times"
        visit.at = len(b.times)
    stock = fire.Stock(mill, new_id)
    if visit.notes == _HELD:
        visit.notes = ""
    if row and b.state == "RUNNING" and visit.at < len(b.times) and stock.suspended(b.job_name):
        row = None
        visit.notes = visit.notes or _HELD
    while row and b.state == "RUNNING" and visit.at < len(b.times) and len(visit.running) < b.parallel:
        if visit.at - b.at >= MOST_AT_ONCE:
            break
        _next(stock, row, backfill, visit, now)
        visit.at += 1
    return visit


def _next(stock: fire.Stock, row: ScheduleRow, backfill: BackfillRow, visit: _Visit, now: int) -> None:
    """Deal with the next time: start its Job, or see that there is no need to."""
    mill = stock.mill
    time = backfill.times[visit.at]
    there = mill.jobs.by_id([job_id for _, job_id in mill.runs.between(row.job_name, time, time + 1)])
    jobs = [job for job in there.values() if job.schedule_id in (row.id, "")]
    known = _standing(jobs, backfill)
    if known:
        _adopt(known, backfill, visit)
        return
    request = fire.request_of(manage.schedule_of(row), time)
    taken = mill.jobs.find(row.job_name, request["trigger"])
    if taken and _own(taken, backfill):
        _adopt(taken, backfill, visit)  # a rival made it just now
        return
    if taken:
        request["trigger"] = short(f"{request['trigger']}-b{backfill.number}")
    try:
        made = fire.job_of(stock, row, request, Actor(backfill.user), now, backfill=backfill.number)
    except MillError as refused:
        visit.failed += 1
        visit.notes = f"{request['trigger']} was refused: {refused}"[:500]
        return
    if mill.jobs.create(made, due=now + START_GRACE_MS):
        start_job(mill, made, now)
        visit.running.append(made.id)
        return
    rival = mill.jobs.find(row.job_name, request["trigger"])
    if not rival:
        raise Busy(f"the job {request['trigger']!r} is being created concurrently; retry")
    _adopt(rival, backfill, visit)


def _standing(jobs: Sequence[JobRow], backfill: BackfillRow) -> JobRow | None:
    """The Job that a time has already: this backfill's own, one that runs, or a success if that is enough."""
    for job in jobs:
        if _own(job, backfill):
            return job
    for job in jobs:
        if not job.state.ended or (job.state is JobState.SUCCESS and not backfill.force):
            return job
    return None


def _own(job: JobRow, backfill: BackfillRow) -> bool:
    return job.backfill == backfill.number and job.schedule_id == backfill.schedule_id


def _adopt(job: JobRow, backfill: BackfillRow, visit: _Visit) -> None:
    """A Job of this time is there: it is waited for, or it counts as it ended."""
    own = _own(job, backfill)
    if not job.state.ended and job.id not in visit.running:
        visit.running.append(job.id)
    elif own and job.state.ended:
        visit.count(job)
    else:
        visit.skipped += 1


def stop(mill: Mill, key: Key, actor: Actor, now: int) -> BackfillRow:
    """Start no more Jobs of a backfill; those that run go on."""
    attempts = Attempts("the backfill")
    while True:
        attempts.begin()
        backfill = read(mill, key)
        if backfill.state != "RUNNING":
            return backfill
        due = now + RECHECK_MS if backfill.running else None
        notes = f"stopped by {actor.name}"
        changed = mill.schedules.change_backfill(
            backfill, due=due, state="STOPPED", notes=notes, update_time=now
        )
        if changed:
            return changed


def read(mill: Mill, key: Key) -> BackfillRow:
    backfill = mill.schedules.backfill(*key)
    if not backfill:
        raise BackfillNotFound(f"the schedule {key[1]!r} of {key[0]!r} has no backfill {key[2]}")
    return backfill


def advance_due(mill: Mill, now: int, new_id: NewId) -> int:
    """What the tick does: go on with each backfill that nothing has moved for a while; how many."""
    due = list(mill.schedules.due_backfills(now))
    for key in due:
        try:
            advance(mill, key, now, new_id)
        except Exception:
            logger.exception(
                "could not go on with a backfill", extra={"action": "advance-backfill", "key": key}
            )
    return len(due)


def view(backfill: BackfillRow) -> Backfill:
    return Backfill(
        number=backfill.number,
        job_name=backfill.job_name,
        schedule_id=backfill.schedule_id,
        state=backfill.state,
        total=len(backfill.times),
        waiting=len(backfill.times) - backfill.at if backfill.state == "RUNNING" else 0,
        running=len(backfill.running),
        success=backfill.success,
        failed=backfill.failed,
        skipped=backfill.skipped,
        parallel=backfill.parallel,
        force=backfill.force,
        create_time=from_ms(backfill.create_time),
        update_time=from_ms(backfill.update_time),
        submit_user=backfill.user,
        notes=backfill.notes,
    )


def _key(backfill: BackfillRow) -> Key:
    return backfill.job_name, backfill.schedule_id, backfill.number
