"""The window of a dependency: calendar units around a dataTime, converted to instants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo

_UNITS = ("minute", "hour", "day", "week", "month", "year")
_ELAPSED = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class CalendarWindow(Protocol):
    """The units from `from_` to `to`, both included, counted from the unit that contains the dataTime."""

    @property
    def unit(self) -> str: ...
    @property
    def from_(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def week_start(self) -> str | None: ...


W = TypeVar("W", bound=CalendarWindow)


def bounds(window: CalendarWindow, moment: datetime, timezone: str) -> tuple[datetime, datetime]:
    """The first instant of a dataTime's window, and the first instant after it.

    Days, weeks (from Monday, or from Sunday with `week_start`), months and years follow the zone's calendar;
    minutes and hours follow elapsed time.
    """
    zone = ZoneInfo(timezone)
    return _begin(window, moment, zone, window.from_), _begin(window, moment, zone, window.to + 1)


def narrowest(windows: Sequence[W]) -> W:
    """The window with the smallest unit; of several, the first."""
    return min(windows, key=lambda window: _UNITS.index(window.unit))


def unit_at(
    window: CalendarWindow, moment: datetime, timezone: str, away: int = 0
) -> tuple[datetime, datetime]:
    """The unit of a window that is `away` units from a moment: its first instant, and the first after it."""
    zone = ZoneInfo(timezone)
    return _begin(window, moment, zone, away), _begin(window, moment, zone, away + 1)


def _begin(window: CalendarWindow, moment: datetime, zone: ZoneInfo, away: int) -> datetime:
    """The beginning of the unit that is `away` units from the one that contains the moment."""
    unit = window.unit
    try:
        local = moment.astimezone(zone)
        if unit in _ELAPSED:
            into = timedelta(seconds=local.second, microseconds=local.microsecond)
            if unit == "hour":
                into += timedelta(minutes=local.minute)
            return moment.astimezone(UTC) - into + away * _ELAPSED[unit]
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        if unit in ("day", "week"):
            into_week = (day.weekday() + (window.week_start == "sunday")) % 7
            days = 7 * away - into_week if unit == "week" else away
            return _instant(day + timedelta(days=days), zone)
        months = (
            day.year * 12 + (day.month - 1 if unit == "month" else 0) + away * (1 if unit == "month" else 12)
        )
        return _instant(day.replace(year=months // 12, month=months % 12 + 1, day=1), zone)
    except (OverflowError, ValueError):
        return _FIRST if away < 0 else _LAST


def _instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The first instant of a local day; if a clock change skips midnight, the end of the gap."""
    return local.replace(tzinfo=zone).astimezone(UTC)
