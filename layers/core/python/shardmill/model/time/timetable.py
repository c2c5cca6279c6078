"""The times at which a schedule fires, as a pure function of its expression, interval or date.

An expression with a fixed hour follows the wall clock: it fires once in the hour that a clock change repeats,
and at the end of an hour that one skips. A wildcard hour and everySeconds follow elapsed time. Expressions of
all dialects only see local times without a zone; this module handles clock changes.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from shardmill.model.time.calendar_times import Calendar
from shardmill.model.time.cron import FIRST, LAST, Cron
from shardmill.model.time.cron_dialects import Interval, Once
from shardmill.model.time.schedule_expression import parse_expression

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Timetable:
    cron: str | None = None
    every_seconds: int | None = None
    at: datetime | None = None
    timezone: str = "UTC"
    start_date: date | None = None
    end_date: date | None = None
    every_months: int | None = None
    at_times: tuple[datetime, ...] = ()
    max_times: int | None = None
    after_jobs: bool = False
    """The times depend on the ends of jobs, so that none is known before."""

    def __post_init__(self) -> None:
        kinds = (
            self.cron,
            self.every_seconds,
            self.at,
            self.every_months,
            self.at_times or None,
            self.after_jobs or None,
        )
        if sum(each is not None for each in kinds) != 1:
            raise ValueError("needs exactly one of cron, every_seconds, every_months, at and at_times")
        if self.every_seconds is not None and self.every_seconds < 1:
            raise ValueError("every_seconds must be at least 1")
        if self.every_months is not None and (self.every_months < 1 or not self.start_date):
            raise ValueError("every_months must be at least 1 and needs start_date")

    def after(self, moment: datetime) -> datetime | None:
        """The first time strictly after a moment, in UTC; None if there is none."""
        return next(self.times(_within(moment) + _MICROSECOND, LAST), None)

    def times(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The times from `start` on and before `end`, in UTC, computed one by one as the caller iterates."""
        start, end = _within(start), _within(end)
        zone = ZoneInfo(self.timezone)
        if self.after_jobs:
            return iter(())
        if self.start_date:
            start = max(start, first_instant(self.start_date, zone))
        if self.end_date:
            end = min(end, end_instant(self.end_date, zone))
        if self.max_times is not None and (last := _nth_time(self)) is not None:
            end = min(end, last + _MICROSECOND)
        if start >= end:
            return iter(())
        return takewhile(lambda found: found < end, self._since(start, zone))

    def local(self, moment: datetime) -> datetime:
        """The moment in the timetable's zone."""
        return moment.astimezone(ZoneInfo(self.timezone))

    def _since(self, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        if self.at is not None or self.at_times:
            moments = sorted({each.astimezone(UTC) for each in (self.at, *self.at_times) if each})
            return (each for each in moments if each >= start)
        if self.every_months is not None:
            return self._monthly(self.every_months, start, zone)
        if self.every_seconds is not None:
            return self._every(self.every_seconds, start, zone)
        assert self.cron is not None
        parsed = parse_expression(self.cron)
        if isinstance(parsed, Interval):
            return self._every(parsed.seconds, start, zone)
        if isinstance(parsed, Once):
            once = _shown(parsed.wall, zone)
            return iter([once] if once >= start else [])
        return _fires(parsed, zone, start)

    def _every(self, seconds: int, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        anchor = first_instant(self.start_date, zone) if self.start_date else _EPOCH
        step = timedelta(seconds=seconds)
        passed = -((anchor - start) // step)  # rounded up
        return (anchor + number * step for number in range(passed, (LAST - anchor) // step + 1))

    def _monthly(self, months: int, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The day and wall-clock time of the first one, every `months` months."""
        assert self.start_date is not None
        anchor = first_instant(self.start_date, zone)
        wall = anchor.astimezone(zone).replace(tzinfo=None, fold=0)
        passed = (start.year - wall.year) * 12 + start.month - wall.month
        for number in range(max(0, passed // months - 1), (LAST.year - wall.year) * 12 // months + 1):
            found = _shown(_months_later(wall, number * months), zone) if number else anchor
            if found >= start:
                yield found


def _within(moment: datetime) -> datetime:
    return min(max(moment, FIRST), LAST).astimezone(UTC)


def first_instant(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a date, or the instant itself."""
    return _within(day) if isinstance(day, datetime) else _midnight(day, zone)


def end_instant(day: date, zone: ZoneInfo) -> datetime:
    """The first instant after a date or an instant."""
    if isinstance(day, datetime):
        return _within(day) + _MICROSECOND
    return _midnight(min(day, LAST.date()) + _DAY, zone)


def _months_later(wall: datetime, months: int) -> datetime:
    """The same day some months later, or the last day of a shorter month."""
    month = wall.year * 12 + wall.month - 1 + months
    year, month = month // 12, month % 12 + 1
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


@lru_cache(maxsize=256)
def _nth_time(table: Timetable) -> datetime | None:
    """The last of a limited number of times; None if there are fewer."""
    assert table.max_times is not None
    unlimited = replace(table, max_times=None).times(FIRST, LAST)
    return next(islice(unlimited, table.max_times - 1, None), None)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    day = max(FIRST.date(), min(day, LAST.date() + _DAY))
    return _shown(datetime.combine(day, time()), zone)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The instant after `low`, at the latest `high`, at which the UTC offset changes."""
    offset = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def _shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which the wall clock first shows a time, or the end of the gap that skips it."""
    first = wall.replace(tzinfo=zone).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    # For a skipped time the two are in reverse order, on either side of the clock change.
    return _change(second, first, zone) if second < first else first


def _fires(cron: Cron | Calendar, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    find = _by_elapsed_time if cron.any_hour else _by_wall_clock
    moment = start + (_EPOCH - start) % _SECOND  # rounded up; offsets change at whole seconds
    while (found := find(cron, zone, moment)) is not None:
        yield found
        moment = found + _SECOND


def _by_wall_clock(cron: Cron | Calendar, zone: ZoneInfo, moment: datetime) -> datetime | None:
    # Begin one second earlier: at the end of a gap, the times that the gap skipped fire now.
    past = moment - _SECOND
    local = past.astimezone(zone)
    if local.fold:
        # The second pass of a repeated hour: its times fired in the first pass.
        change = _change(local.replace(fold=0).astimezone(UTC), past, zone)
        local = (change - _SECOND).astimezone(zone)
    wall = cron.first(local.replace(fold=0) + _SECOND)
    return wall and _shown(wall, zone)


def _by_elapsed_time(cron: Cron | Calendar, zone: ZoneInfo, moment: datetime) -> datetime | None:
    while True:
        offset = _offset(moment, zone)
        wall = cron.first(moment + offset)
        if wall is None:
            return None
        found = wall.replace(tzinfo=UTC) - offset
        near = min(found, moment + _DAY)
        if _offset(near, zone) != offset:
            moment = _change(moment, near, zone)
        elif found == near:
            return found
        else:
            # No clock change for a day, so no time repeats: continue shortly before the candidate.
            moment = max(near, found - 2 * _DAY)
