"""Expressions with a dialect's name: EventBridge's `cron(…)`, `rate(…)` and `at(…)`, and `quartz(…)`.

No library evaluates all of Quartz's and EventBridge's forms, so they are read into `Calendar`. What the two
do not define, or what implementations interpret differently, is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from shardmill.model.time.calendar_times import (
    ALL_YEARS,
    Calendar,
    DayRule,
    LastDay,
    MonthDays,
    NearestWeekday,
    NthWeekday,
    Weekdays,
)
from shardmill.model.time.cron import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, CronField

MAX_SECONDS = 10 * 366 * 86_400

_SECOND = CronField("second", 0, 59)
_SUNDAY_IS_1 = replace(DAY_OF_WEEK, low=1, high=7, spare=0)
_YEAR = CronField("year", ALL_YEARS[0], ALL_YEARS[-1])
_WRITTEN = re.compile(r"([a-z]+)\((.*)\)", re.DOTALL)
_ITEM = re.compile(r"(\*|\d{1,4}|[a-z]{3})?(?:-(\d{1,4}|[a-z]{3}))?(?:/(\d{1,4}))?")
_LAST_DAY = re.compile(r"l(?:-(\d{1,2}))?(w)?")
_NEAREST = re.compile(r"(\d{1,2})w")
_NTH = re.compile(r"([0-9]|[a-z]{3})#([1-5])")
_LAST_WEEKDAY = re.compile(r"([0-9]|[a-z]{3})l")
_LAST_OF_FIVE_FIELDS = re.compile(r"l([0-9])")
_UNITS = {"minute": 60, "hour": 3_600, "day": 86_400}


class BadExpression(ValueError):
    """An expression is not valid."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Interval:
    seconds: int


@dataclass(frozen=True, slots=True)
class Once:
    """One time, local to the schedule's zone."""

    wall: datetime


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What differs between dialects.

    `wraps`: fields whose ranges may pass their end, as 22-2. `lists_rules`: L, W and # may stand in lists.
    """

    example: str
    fields: tuple[CronField, ...]
    weekday: CronField = _SUNDAY_IS_1
    wraps: tuple[CronField, ...] = ()
    lists_rules: bool = False


_EVENTBRIDGE = _Dialect(
    "cron(0 18 ? * MON-FRI *)",
    (MINUTE, HOUR, DAY_OF_MONTH, MONTH, _SUNDAY_IS_1, _YEAR),
    wraps=(
        HOUR,
    ),  # as in 0/30 20-2 ? * MON-FRI * of AWS's documentation, which has no other range of this kind
)
_QUARTZ = _Dialect(
    "quartz(0 0 18 ? * MON-FRI)",
    (_SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, _SUNDAY_IS_1, _YEAR),
    wraps=(_SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, _SUNDAY_IS_1),
)
_FIVE_FIELDS = _Dialect(
    "0 18 * * mon-fri",
    (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK),
    weekday=DAY_OF_WEEK,
    lists_rules=True,
)


def named_dialect(text: str) -> bool:
    """Whether an expression is written with the name of a dialect."""
    return _WRITTEN.fullmatch(text.strip()) is not None


def parse_dialect(text: str) -> Calendar | Interval | Once:
    """Read an expression such as `quartz(…)`. Raises BadExpression."""
    match = _WRITTEN.fullmatch(text.strip())
    name, inside = (match[1], match[2].strip()) if match else ("", "")
    if name == "rate":
        return _rate(inside)
    if name == "at":
        return _at(inside)
    if name not in ("cron", "quartz"):
        raise _bad("must be cron(…), rate(…), at(…) or quartz(…)")
    dialect = _QUARTZ if name == "quartz" else _EVENTBRIDGE
    fields = inside.lower().split()
    if name == "quartz" and len(fields) == 6:
        fields.append("*")
    if len(fields) != len(dialect.fields):
        number = "6 or 7 fields: second," if name == "quartz" else "6 fields:"
        raise _bad(f"{name}(…) must have {number} minute, hour, day of month, month, day of week, year")
    calendar = _calendar(dialect, fields)
    if calendar.first(datetime(ALL_YEARS[0], 1, 1, tzinfo=UTC)) is None:
        raise BadExpression("impossible-date", "can never fire: there is no such day in any of its months")
    return calendar


def read_five_fields(text: str) -> Calendar:
    """The calendar of a valid expression of five fields, of which croniter computes the times."""
    return _calendar(_FIVE_FIELDS, text.lower().split())


def _rate(text: str) -> Interval:
    match = re.fullmatch(r"(\d{1,9})\s+(minute|hour|day)(s?)", text)
    if not match or int(match[1]) == 0:
        raise _bad("rate(…) must have a positive number and minutes, hours or days: rate(5 minutes)")
    number, unit = int(match[1]), match[2]
    if (number == 1) == bool(match[3]):
        right = f"rate({number} {unit}{'' if number == 1 else 's'})"
        raise _bad(f"EventBridge requires the singular for 1 and the plural otherwise: write {right}")
    if number * _UNITS[unit] > MAX_SECONDS:
        raise _bad("rate(…) must be at most ten years")
    return Interval(number * _UNITS[unit])


def _at(text: str) -> Once:
    try:
        wall = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - local to the schedule's zone
        if wall.year not in ALL_YEARS:
            raise ValueError
    except ValueError:
        raise _bad(
            "at(…) must be a time such as at(2026-11-20T13:00:00), without an offset: it is local to timezone"
        ) from None
    return Once(wall)


def _calendar(dialect: _Dialect, texts: list[str]) -> Calendar:
    given = dict(zip(dialect.fields, texts, strict=True))
    day, weekday = given[DAY_OF_MONTH], given[dialect.weekday]
    if dialect is not _FIVE_FIELDS and (day == "?") == (weekday == "?"):
        raise _bad(
            f"needs ? in one of the two day fields, and only there: {dialect.example}; "
            "EventBridge and Quartz do not combine the two"
        )
    months = _values(dialect, MONTH, given[MONTH])
    return Calendar(
        seconds=_values(dialect, _SECOND, given[_SECOND]) if _SECOND in given else (0,),
        minutes=_values(dialect, MINUTE, given[MINUTE]),
        hours=_values(dialect, HOUR, given[HOUR]),
        days=tuple(_day_rules(dialect, day, weekday, months)),
        months=months,
        years=_values(dialect, _YEAR, given[_YEAR]) if _YEAR in given else ALL_YEARS,
        # In these dialects 0/2 is the usual spelling of */2.
        any_hour=re.fullmatch(r"\*|(\*|0)?/\d+", given[HOUR]) is not None,
    )


def _day_rules(dialect: _Dialect, day: str, weekday: str, months: tuple[int, ...]) -> Iterator[DayRule]:
    anything = ("*", "?")
    if day not in anything or weekday in anything:
        yield from _rules(dialect, DAY_OF_MONTH, "*" if day == "?" else day, months)
    if weekday not in anything:
        yield from _rules(dialect, dialect.weekday, weekday, months)


def _rules(dialect: _Dialect, field: CronField, text: str, months: tuple[int, ...]) -> Iterator[DayRule]:
    items = text.split(",")
    plain: list[str] = []
    for item in items:
        rule = _month_rule(item, months) if field is DAY_OF_MONTH else _week_rule(field, item)
        if rule is None:
            plain.append(item)
        elif len(items) > 1 and not dialect.lists_rules:
            raise _bad(f"{field.name}: {item} must stand alone, not in a list")
        else:
            yield rule
    if plain:
        values = _values(dialect, field, ",".join(plain))
        if field is DAY_OF_MONTH:
            yield MonthDays(values)
        else:
            yield Weekdays(tuple(sorted({(value - field.low) % 7 for value in values})))


def _month_rule(item: str, months: tuple[int, ...]) -> DayRule | None:
    if match := _LAST_DAY.fullmatch(item):
        before = int(match[1] or 0)
        if before > 30:
            raise _bad(f"day of month: {item} is not in the range L-1 to L-30")
        return LastDay(before, on_weekday=bool(match[2]))
    if match := _NEAREST.fullmatch(item):
        day = int(match[1])
        if not 1 <= day <= 31:
            raise _bad(f"day of month: {item} is not in the range 1W to 31W")
        rule = NearestWeekday(day)
        if any(not rule.days(2027, month) for month in months):
            text = f"{item} in a month without that day is interpreted differently: write LW, or other months"
            raise BadExpression("ambiguous-cron", f"day of month: {text}")
        return rule
    return None


def _week_rule(field: CronField, item: str) -> DayRule | None:
    if item == "l" and field is _SUNDAY_IS_1:
        return Weekdays((6,))
    if match := _NTH.fullmatch(item):
        return NthWeekday(_weekday(field, item, match[1]), int(match[2]))
    last = _LAST_OF_FIVE_FIELDS if field is DAY_OF_WEEK else _LAST_WEEKDAY
    if match := last.fullmatch(item):
        return NthWeekday(_weekday(field, item, match[1]), -1)
    return None


def _weekday(field: CronField, item: str, text: str) -> int:
    number = field.number(text)
    if number < 0:
        raise _bad(f"{field.name}: {item} is not in the range {field.low} to {field.high}")
    return (number - field.low) % 7


def _values(dialect: _Dialect, field: CronField, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        begin, end, step = match.groups() if match and item else (None, None, None)
        if not match or not item or (begin in (None, "*") and (end or not (begin or step))):
            raise _bad(f"{field.name}: {item[:20]!r} is not valid")
        found |= _span(dialect, field, item, begin or "*", end, step)
    return tuple(sorted(found))


def _span(
    dialect: _Dialect, field: CronField, item: str, begin: str, end: str | None, step: str | None
) -> set[int]:
    size = field.high - field.low + 1
    first = field.low if begin == "*" else field.number(begin)
    last = field.number(end) if end else (field.high if begin == "*" or step else first)
    if end == "sun" and field is DAY_OF_WEEK and first > 0:
        last = 7
    if min(first, last) < 0:
        raise _bad(f"{field.name}: {item} is not in the range {field.low} to {field.high}")
    if last < first:
        if field not in dialect.wraps:
            text = f"{item} ends before it begins: write two ranges"
            raise BadExpression("ambiguous-cron", f"{field.name}: {text}")
        last += size
    every = int(step or 1)
    if not 1 <= every < size:
        # The author of 0/90 expects every 90 minutes, but would get every hour.
        raise BadExpression(
            "ambiguous-cron", f"{field.name}: the step of {item} must be from 1 to {size - 1}"
        )
    return {
        (value - field.low) % size + field.low if last > field.high + field.spare else value
        for value in range(first, last + 1, every)
    }


def _bad(message: str) -> BadExpression:
    return BadExpression("bad-cron", message)
