"""The times of a backfill: read and check the range and the times of a request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from shardmill.engine.schedules import manage
from shardmill.model.fault import Fault, fault
from shardmill.model.time.backfill import MAX_TIMES, BackfillEffect, BackfillRequest
from shardmill.model.time.schedule import Schedule
from shardmill.model.timestamps import from_ms, to_ms
from shardmill.store.rows import ScheduleRow


def dry_run(row: ScheduleRow, request: BackfillRequest, now: int) -> BackfillEffect:
    """Return the times that a backfill would run; reads and writes nothing."""
    schedule = manage.schedule_of(row)
    times = requested_times(schedule, request, now)
    zone = ZoneInfo(schedule.timezone)
    first, last = (f"{from_ms(time).astimezone(zone):%Y-%m-%d %H:%M:%S}" for time in (times[0], times[-1]))
    number = f"{len(times):,} times run" if len(times) > 1 else "1 time runs"
    ordered = "the newest first" if request.order == "desc" else "the oldest first"
    repeated = "run again" if request.force else "are skipped"
    return BackfillEffect(
        total=len(times),
        first=from_ms(times[0]),
        last=from_ms(times[-1]),
        parallel=request.parallel,
        sentences=[
            f"{number}, one Job of {row.job_name} each: {request.parallel} at a time, {ordered}.",
            f"From {first} to {last} ({schedule.timezone}).",
            f"Times whose Job has succeeded {repeated}.",
        ],
    )


def requested_times(schedule: Schedule, request: BackfillRequest, now: int) -> list[int]:
    """Return the requested times in ascending order. Raises ScheduleInvalid with all faults."""
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
            text = "the schedule has no time in this range; check its startDate, endDate and delaySeconds"
            faults.append(fault(where, "no-times", text))
        elif times[-1] > now:
            faults.append(fault(where, "future-time", "is in the future; a backfill runs past times only"))
        found.update(times)
    if len(found) > MAX_TIMES:
        text = f"a backfill has at most {MAX_TIMES} times; split the range into several backfills"
        faults = [fault((), "too-many-times", text)]
    if faults:
        raise manage.invalid("the backfill is not valid", faults)
    return sorted(found)


def _span(text: str, timezone: str) -> tuple[datetime, datetime] | None:
    """Return the range of a date (a whole day in the schedule's time zone) or of a time; None if invalid."""
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
