"""The times at which a schedule fires, as a pure function of its cron expression, interval or date.

An expression with a fixed hour follows the wall clock: it fires once in the hour that a clock change repeats,
and at the end of an hour that one skips. A wildcard hour and everySeconds follow elapsed time. croniter only
sees local times without a zone; this module handles clock changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from shardmill.model.time.cron import FIRST, LAST, Cron, parse_cron

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

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.cron, self.every_seconds, self.at)) != 1:
            raise ValueError("needs exactly one of cron, every_seconds and at")
        if self.every_seconds is not None and self.every_seconds < 1:
            raise ValueError("every_seconds must be at least 1")

    def after(self, moment: datetime) -> datetime | None:
        """The first time strictly after a moment, in UTC; None if there is none."""
        return next(self.times(_within(moment) + _MICROSECOND, LAST), None)

    def times(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The times from `start` on and before `end`, in UTC, computed one by one as the caller iterates."""
        start, end = _within(start), _within(end)
        zone = ZoneInfo(self.timezone)
        if self.start_date:
            start = max(start, _midnight(self.start_date, zone))
        if self.end_date:
            end = min(end, _midnight(min(self.end_date, LAST.date()) + _DAY, zone))
        if start >= end:
            return iter(())
        return takewhile(lambda found: found < end, self._since(start, zone))

    def local(self, moment: datetime) -> datetime:
        """The moment in the timetable's zone."""
        return moment.astimezone(ZoneInfo(self.timezone))

    def _since(self, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        if self.at is not None:
            return iter([self.at.astimezone(UTC)] if self.at >= start else [])
        if self.every_seconds is not None:
            anchor = _midnight(self.start_date, zone) if self.start_date else _EPOCH
            step = timedelta(seconds=self.every_seconds)
            passed = -((anchor - start) // step)  # rounded up
            return (anchor + number * step for number in range(passed, (LAST - anchor) // step + 1))
        assert self.cron is not None
        return _fires(parse_cron(self.cron), zone, start)


def _within(moment: datetime) -> datetime:
    return min(max(moment, FIRST), LAST).astimezone(UTC)


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


def _fires(cron: Cron, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    find = _by_elapsed_time if cron.any_hour else _by_wall_clock
    moment = start + (_EPOCH - start) % _SECOND  # rounded up; offsets change at whole seconds
    while (found := find(cron, zone, moment)) is not None:
        yield found
        moment = found + _SECOND


def _by_wall_clock(cron: Cron, zone: ZoneInfo, moment: datetime) -> datetime | None:
    # Begin one second earlier: at the end of a gap, the times that the gap skipped fire now.
    past = moment - _SECOND
    local = past.astimezone(zone)
    if local.fold:
        # The second pass of a repeated hour: its times fired in the first pass.
        change = _change(local.replace(fold=0).astimezone(UTC), past, zone)
        local = (change - _SECOND).astimezone(zone)
    wall = cron.first(local.replace(fold=0) + _SECOND)
    return wall and _shown(wall, zone)


def _by_elapsed_time(cron: Cron, zone: ZoneInfo, moment: datetime) -> datetime | None:
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
