"""When a schedule fires: a pure function of its cron, seconds or date, of its zone and of its days.

An expression with a fixed hour follows the wall clock: once in the hour that a clock change repeats, and at
the end of the hour that one leaves out. A wildcard hour and everySeconds follow elapsed time. croniter only
ever sees local times without a zone: what a clock change does to them is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Inside what datetime holds by some weeks, so that no offset and no look ahead leads out of it.
_FIRST = datetime(2, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 1, tzinfo=UTC)

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_Fault = tuple[str, str]


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
            raise ValueError("every_seconds must be 1 at least")

    def after(self, moment: datetime) -> datetime | None:
        """The first time strictly after a moment, in UTC; None if there is none."""
        return next(self.times(_within(moment) + _MICROSECOND, _LAST), None)

    def times(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every time from start, and before end, in UTC; each is worked out when it is asked for."""
        start, end = _within(start), _within(end)
        zone = ZoneInfo(self.timezone)
        if self.start_date:
            start = max(start, _midnight(self.start_date, zone))
        if self.end_date:
            end = min(end, _midnight(min(self.end_date, _LAST.date()) + _DAY, zone))
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
            return (anchor + number * step for number in range(passed, (_LAST - anchor) // step + 1))
        assert self.cron is not None
        return _fires(_parsed(self.cron), zone, start)


def cron_fault(expression: str) -> _Fault | None:
    """What is wrong with a cron text: a code and words for people; None if nothing is."""
    if expression in _MACROS:
        return None
    fault = next(_faults(expression), None)
    if fault:
        return fault
    try:
        parsed = _parsed(expression)
    except ValueError:  # a later croniter may refuse more than this one
        return "bad-cron", "is not understood"
    # Either day may match, but a date that never comes is a mistake even next to a weekday.
    if any(parsed._replace(parts=(part,)).first(_FIRST) is None for part in parsed.parts):
        return "impossible-date", "can never fire: the months that it names have no such day"
    return None


def _within(moment: datetime) -> datetime:
    return min(max(moment, _FIRST), _LAST).astimezone(UTC)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    day = max(_FIRST.date(), min(day, _LAST.date() + _DAY))
    return _shown(datetime.combine(day, time()), zone)


# Clock changes


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The instant, after low and not after high, at which the offset is no longer that of low."""
    offset = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def _shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the wall clock first shows a time; when it goes on, if a clock change leaves that time out."""
    first = wall.replace(tzinfo=zone).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    # For a time that does not exist the two are the wrong way round, on both sides of the change.
    return _change(second, first, zone) if second < first else first


def _fires(cron: _Cron, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    find = _by_elapsed_time if cron.any_hour else _by_wall_clock
    moment = start + (_EPOCH - start) % _SECOND  # rounded up: no zone changes within a second
    while (found := find(cron, zone, moment)) is not None:
        yield found
        moment = found + _SECOND


def _by_wall_clock(cron: _Cron, zone: ZoneInfo, moment: datetime) -> datetime | None:
    # From the second before: at the end of a gap the wall clock has left out what fires now.
    past = moment - _SECOND
    local = past.astimezone(zone)
    if local.fold:
        # The second pass of a repeated hour: all of that hour was shown before it began.
        change = _change(local.replace(fold=0).astimezone(UTC), past, zone)
        local = (change - _SECOND).astimezone(zone)
    wall = cron.first(local.replace(fold=0) + _SECOND)
    return wall and _shown(wall, zone)


def _by_elapsed_time(cron: _Cron, zone: ZoneInfo, moment: datetime) -> datetime | None:
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
            # With no change for a day, the clock shows nothing of the past again: go to where it may matter.
            moment = max(near, found - 2 * _DAY)


# Cron texts


class _Cron(NamedTuple):
    """A parsed text. Where both days are restricted it has two parts, and either fires.

    croniter does that by itself, but not next to `sat#2`, nor where one of the days never comes.
    """

    any_hour: bool
    parts: tuple[Any, ...]

    def first(self, wall: datetime) -> datetime | None:
        """The first time that matches, from a local time on; both without a zone."""
        before = (wall.replace(tzinfo=None) - _SECOND).replace(second=0, microsecond=0)
        found = []
        for part in self.parts:
            # A copy is cheap, and the original, which other threads read, remembers where it was last.
            with suppress(ValueError, OverflowError):  # no such date, or none before the year 10000
                found.append(copy(part).get_next(datetime, start_time=before))
        earliest: datetime | None = min(found, default=None)
        return earliest if earliest and earliest < _LAST.replace(tzinfo=None) else None


@lru_cache(maxsize=256)
def _parsed(text: str) -> _Cron:
    # Only who evaluates a cron text pays for the import.
    from croniter import croniter

    minute, hour, day, month, weekday = _MACROS.get(text, text).split()
    days = [(day, weekday)] if "*" in (day, weekday) else [(day, "*"), ("*", weekday)]
    texts = (f"{minute} {hour} {each} {month} {of_week}" for each, of_week in days)
    return _Cron(hour.startswith("*"), tuple(croniter(each, _EPOCH) for each in texts))


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    spare: int = 0
    """7 is Sunday again: it may be written, and * does not reach it."""

    def number(self, text: str) -> int:
        """The value of a number or a name; -1 if it is none of this field."""
        if text.isdigit():
            return int(text) if self.low <= int(text) <= self.high + self.spare else -1
        return self.names.index(text) + self.low if text in self.names else -1


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_OF_MONTH = _Field("day of month", 1, 31)
_DAY_OF_WEEK = _Field("day of week", 0, 6, _WEEKDAYS, spare=1)
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DAY_OF_MONTH,
    _Field("month", 1, 12, _MONTHS),
    _DAY_OF_WEEK,
)
_STRANGE = re.compile(r"[^0-9A-Za-z*/,#?() \t-]")
_CHANCE = re.compile(r"(?:^|[ \t,])[hr](?:[ \t,(/]|$)")
_ITEM = re.compile(r"(\*|\d{1,4}|[a-z]{3})(?:-(\d{1,4}|[a-z]{3}))?(?:/(\d{1,4}))?")
_NTH = re.compile(rf"(?:[0-7]|{'|'.join(_WEEKDAYS)})#[1-5]|l[0-7]")


def _bad(message: str) -> _Fault:
    return "bad-cron", message


def _ambiguous(form: str, instead: str) -> _Fault:
    return "ambiguous-cron", f"{form} does not mean the same everywhere: write {instead}"


def _faults(expression: str) -> Iterator[_Fault]:
    text = expression.lower()
    if text.startswith("@"):
        yield _bad(f"of the words with @ there are only {', '.join(_MACROS)}")
    if _STRANGE.search(expression):
        yield _bad("has a character that no cron expression has")
    if "?" in text:
        yield _bad("cannot have ?: write *")
    if _CHANCE.search(text):
        yield _bad("cannot have H or R: write the time that you want")
    fields = text.split()
    if len(fields) in (6, 7):
        yield _bad(f"must have 5 fields and has {len(fields)}: seconds and years are not supported")
    elif len(fields) != 5:
        yield _bad("must be a cron expression of 5 fields, or @daily and the like")
    for field, value in zip(_FIELDS, fields, strict=True):
        yield from _field_faults(field, value.split(","))
    yield from _day_faults(fields[2], fields[4])


def _field_faults(field: _Field, items: list[str]) -> Iterator[_Fault]:
    nth = [item for item in items if field is _DAY_OF_WEEK and _NTH.fullmatch(item)]
    for item in items:
        match = _ITEM.fullmatch(item)
        if match:
            yield from _item_faults(field, item, *match.groups())
        elif item not in nth and not (item == "l" and field is _DAY_OF_MONTH):
            yield _bad(f"{field.name}: {item[:20]!r} is not understood")
    if nth and len(nth) < len(items):
        yield _bad(f"{field.name}: {nth[0]} cannot be in one list with plain days")
    if "*" in items and len(items) > 1:
        yield _ambiguous(f"{field.name}: * in a list", "* alone, or the list without it")


def _item_faults(field: _Field, item: str, begin: str, end: str | None, step: str | None) -> Iterator[_Fault]:
    first, last = (
        (field.low, field.high) if begin == "*" else (field.number(begin), field.number(end or begin))
    )
    if min(first, last) < 0:
        yield _bad(f"{field.name}: {item} is not within {field.low} to {field.high + field.spare}")
    if (begin == "*" and end) or (step and int(step) == 0):
        yield _bad(f"{field.name}: {item} is not understood")
    if end == "sun" and first > 0:
        last = 7
    form = f"{field.name}: {item}"
    if step and begin != "*" and not end:
        # croniter 6.2 takes 59/15 for 0-59/15, the next one for 59; others refuse it.
        more = first + int(step) <= field.high
        yield _ambiguous(form, f"{begin}-{field.high}/{step}" if more else begin)
    elif end and first == last:
        # croniter takes 5-5 for all of the field, others for 5.
        yield _ambiguous(form, begin)
    elif first > last:
        # croniter goes on at the beginning, and miscounts the steps when it does; others refuse it.
        yield _ambiguous(form, f"two ranges, one to {field.high} and one from {field.low}")
    elif step and int(step) > last - first:
        # Whoever writes */90 wants an hour and a half, and gets an hour.
        yield _ambiguous(f"{form}, with a step longer than its range,", str(first))


def _day_faults(day: str, weekday: str) -> Iterator[_Fault]:
    if "*" in (day, weekday):
        return
    for field, value in ((_DAY_OF_MONTH, day), (_DAY_OF_WEEK, weekday)):
        for item in value.split(","):
            if item.startswith("*"):
                # Some crons want both days to match as soon as one of them has a *.
                whole = item.replace("*", f"{field.low}-{field.high}")
                yield _ambiguous(f"{field.name}: {item}, while both days are restricted,", whole)
