"""Times by calendar fields, as frozen values: the seconds, minutes and hours of the days that a rule selects.

Weekdays are numbered from 0, Sunday, to 6. All times are local times without a zone.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Protocol

ALL_DAYS = tuple(range(1, 32))
ALL_MONTHS = tuple(range(1, 13))
ALL_YEARS = tuple(range(1970, 2200))
ALL_HOURS = tuple(range(24))
ALL_MINUTES = tuple(range(60))

_SATURDAY, _SUNDAY = 6, 0


class DayRule(Protocol):
    def days(self, year: int, month: int) -> Sequence[int]:
        """The days of a month that the rule selects."""


@dataclass(frozen=True, slots=True)
class MonthDays:
    values: tuple[int, ...]

    def days(self, year: int, month: int) -> Sequence[int]:
        last = _last_day(year, month)
        return [day for day in self.values if day <= last]


@dataclass(frozen=True, slots=True)
class LastDay:
    """The last day of the month or a day before it; `on_weekday`: the nearest Monday to Friday."""

    before: int = 0
    on_weekday: bool = False

    def days(self, year: int, month: int) -> Sequence[int]:
        day = _last_day(year, month) - self.before
        if day < 1:
            return []
        return [_nearest_weekday(year, month, day) if self.on_weekday else day]


@dataclass(frozen=True, slots=True)
class NearestWeekday:
    """The Monday to Friday nearest to a day, in the same month."""

    day: int

    def days(self, year: int, month: int) -> Sequence[int]:
        return [] if self.day > _last_day(year, month) else [_nearest_weekday(year, month, self.day)]


@dataclass(frozen=True, slots=True)
class Weekdays:
    values: tuple[int, ...]

    def days(self, year: int, month: int) -> Sequence[int]:
        first = _weekday(year, month, 1)
        return [day for day in range(1, _last_day(year, month) + 1) if (first + day - 1) % 7 in self.values]


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """One weekday of the month: its first to fifth, or its last (-1)."""

    weekday: int
    number: int

    def days(self, year: int, month: int) -> Sequence[int]:
        found = Weekdays((self.weekday,)).days(year, month)
        if self.number < 0:
            return found[-1:]
        return found[self.number - 1 : self.number]


@dataclass(frozen=True, slots=True)
class Calendar:
    """A day fires if one of the rules in `days` selects it; all tuples are in ascending order.

    `any_hour`: the hour is a wildcard, so that the times follow elapsed time.
    """

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    days: tuple[DayRule, ...]
    months: tuple[int, ...] = ALL_MONTHS
    years: tuple[int, ...] = ALL_YEARS
    seconds: tuple[int, ...] = (0,)
    any_hour: bool = False

    def first(self, wall: datetime) -> datetime | None:
        """The first time at or after a local time, which has whole seconds; its zone is ignored."""
        begin = wall.date()
        for day in self._dates(begin):
            found = self._time(wall.time() if day == begin else time.min)
            if found is not None:
                return datetime.combine(day, found)
        return None

    def _dates(self, begin: date) -> Iterator[date]:
        for year in self.years:
            for month in self.months if year >= begin.year else ():
                if (year, month) < (begin.year, begin.month):
                    continue
                for day in sorted({day for rule in self.days for day in rule.days(year, month)}):
                    if (found := date(year, month, day)) >= begin:
                        yield found

    def _time(self, begin: time) -> time | None:
        for hour in self.hours:
            for minute in self.minutes if hour >= begin.hour else ():
                if (hour, minute) < (begin.hour, begin.minute):
                    continue
                for second in self.seconds:
                    if (found := time(hour, minute, second)) >= begin:
                        return found
        return None


def _last_day(year: int, month: int) -> int:
    return monthrange(year, month)[1]


def _weekday(year: int, month: int, day: int) -> int:
    return date(year, month, day).isoweekday() % 7


def _nearest_weekday(year: int, month: int, day: int) -> int:
    weekday = _weekday(year, month, day)
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < _last_day(year, month) else day - 2
    return day
