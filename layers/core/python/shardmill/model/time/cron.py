"""Cron expressions: five fields, or a macro such as `@daily`.

croniter evaluates them. Expressions that cron implementations interpret differently are rejected, so that a
schedule fires when its author expects it. All times here are local times without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

FIRST = datetime(2, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 1, tzinfo=UTC)
"""The range of times: some weeks inside that of datetime, so that no offset or look-ahead overflows."""

_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_Fault = tuple[str, str]


def cron_fault(expression: str) -> _Fault | None:
    """The code and message of the first fault of a cron expression; None if it is valid."""
    if expression in MACROS:
        return None
    fault = next(_faults(expression), None)
    if fault:
        return fault
    try:
        parsed = parse_cron(expression)
    except ValueError:  # another version of croniter may reject more
        return "bad-cron", "is not a valid cron expression"
    # Either day may match, but a date that never occurs is a mistake even beside a day of the week.
    if any(parsed._replace(parts=(part,)).first(FIRST) is None for part in parsed.parts):
        return "impossible-date", "can never fire: there is no such day in any of its months"
    return None


class Cron(NamedTuple):
    """A parsed expression: two parts if it restricts both day of month and day of week; either fires.

    croniter combines the two itself, except beside `sat#2` and where one of the days never occurs.
    """

    any_hour: bool
    parts: tuple[Any, ...]

    def first(self, wall: datetime) -> datetime | None:
        """The first matching time at or after a local time; both without a zone."""
        before = (wall.replace(tzinfo=None) - _SECOND).replace(second=0, microsecond=0)
        found = []
        for part in self.parts:
            # A croniter keeps its position, and other threads use this one: work on a copy, which is cheap.
            with suppress(ValueError, OverflowError):  # no such date before the year 10000
                found.append(copy(part).get_next(datetime, start_time=before))
        earliest: datetime | None = min(found, default=None)
        return earliest if earliest and earliest < LAST.replace(tzinfo=None) else None


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    from croniter import croniter  # imported only where an expression is evaluated

    minute, hour, day, month, weekday = MACROS.get(text, text).split()
    days = [(day, weekday)] if "*" in (day, weekday) else [(day, "*"), ("*", weekday)]
    texts = (f"{minute} {hour} {each} {month} {of_week}" for each, of_week in days)
    return Cron(hour.startswith("*"), tuple(croniter(each, _EPOCH) for each in texts))


@dataclass(frozen=True, slots=True)
class CronField:
    """A field of a cron expression: its name, its values and their names."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    spare: int = 0
    """How many values above `high` are also accepted: 7 is Sunday, like 0, but * does not include it."""

    def number(self, text: str) -> int:
        """The value of a number or a name; -1 if the field does not accept it."""
        if text.isdigit():
            return int(text) if self.low <= int(text) <= self.high + self.spare else -1
        return self.names.index(text) + self.low if text in self.names else -1


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MINUTE = CronField("minute", 0, 59)
HOUR = CronField("hour", 0, 23)
DAY_OF_MONTH = CronField("day of month", 1, 31)
MONTH = CronField("month", 1, 12, _MONTHS)
DAY_OF_WEEK = CronField("day of week", 0, 6, _WEEKDAYS, spare=1)
_FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_UNEXPECTED = re.compile(r"[^0-9A-Za-z*/,#?() \t-]")
_RANDOM = re.compile(r"(?:^|[ \t,])[hr](?:[ \t,(/]|$)")
_ITEM = re.compile(r"(\*|\d{1,4}|[a-z]{3})(?:-(\d{1,4}|[a-z]{3}))?(?:/(\d{1,4}))?")
_ELSEWHERE = re.compile(rf"\d{{1,2}}w|lw|l-\d{{1,2}}w?|(?:[0-7]|{'|'.join(_WEEKDAYS)})l")
_NTH = re.compile(rf"(?:[0-7]|{'|'.join(_WEEKDAYS)})#[1-5]|l[0-7]")


def _bad(message: str) -> _Fault:
    return "bad-cron", message


def _ambiguous(form: str, instead: str) -> _Fault:
    return "ambiguous-cron", f"{form} is interpreted differently by cron implementations: write {instead}"


def _faults(expression: str) -> Iterator[_Fault]:
    text = expression.lower()
    if text.startswith("@"):
        yield _bad(f"is not a known macro; use one of {', '.join(MACROS)}")
    if _UNEXPECTED.search(expression):
        yield _bad("contains a character that is not allowed in a cron expression")
    if "?" in text:
        yield _bad("must not contain ?: write *, or name the dialect: cron(…) or quartz(…)")
    if _RANDOM.search(text):
        yield _bad("must not contain H or R, which stand for random times: write a fixed time")
    fields = text.split()
    if len(fields) in (6, 7):
        yield _bad(
            f"must have 5 fields, not {len(fields)}: write cron(…) around EventBridge's six fields, "
            "quartz(…) around Quartz's"
        )
    elif len(fields) != 5:
        yield _bad("must be a cron expression of 5 fields, or a macro such as @daily")
    for field, value in zip(_FIELDS, fields, strict=True):
        yield from _field_faults(field, value.split(","))
    yield from _day_faults(fields[2], fields[4])


def _field_faults(field: CronField, items: list[str]) -> Iterator[_Fault]:
    nth = [item for item in items if field is DAY_OF_WEEK and _NTH.fullmatch(item)]
    for item in items:
        match = _ITEM.fullmatch(item)
        if match:
            yield from _item_faults(field, item, *match.groups())
        elif item not in nth and not (item == "l" and field is DAY_OF_MONTH):
            where = " in five fields, only in cron(…) or quartz(…)" if _ELSEWHERE.fullmatch(item) else ""
            yield _bad(f"{field.name}: {item[:20]!r} is not valid{where}")
    if nth and len(nth) < len(items):
        yield _bad(f"{field.name}: {nth[0]} cannot be combined with plain days in a list")
    if "*" in items and len(items) > 1:
        yield _ambiguous(f"{field.name}: * in a list", "* alone, or the list without it")


def _item_faults(
    field: CronField, item: str, begin: str, end: str | None, step: str | None
) -> Iterator[_Fault]:
    first, last = (
        (field.low, field.high) if begin == "*" else (field.number(begin), field.number(end or begin))
    )
    if min(first, last) < 0:
        yield _bad(f"{field.name}: {item} is not in the range {field.low} to {field.high + field.spare}")
    if (begin == "*" and end) or (step and int(step) == 0):
        yield _bad(f"{field.name}: {item} is not valid")
    if end == "sun" and first > 0:
        last = 7
    form = f"{field.name}: {item}"
    if step and begin != "*" and not end:
        # croniter 6.2 reads 59/15 as 0-59/15, its next version as 59; other implementations reject it.
        more = first + int(step) <= field.high
        yield _ambiguous(form, f"{begin}-{field.high}/{step}" if more else begin)
    elif end and first == last:
        # croniter reads 5-5 as the whole field, other implementations as 5.
        yield _ambiguous(form, begin)
    elif first > last:
        # croniter wraps around and miscounts the steps; other implementations reject it.
        yield _ambiguous(form, f"two ranges, one to {field.high} and one from {field.low}")
    elif step and int(step) > last - first:
        # The author of */90 expects every 90 minutes and would get every hour.
        yield _ambiguous(f"{form}, whose step is longer than its range,", str(first))


def _day_faults(day: str, weekday: str) -> Iterator[_Fault]:
    if "*" in (day, weekday):
        return
    for field, value in ((DAY_OF_MONTH, day), (DAY_OF_WEEK, weekday)):
        for item in value.split(","):
            if item.startswith("*"):
                # Some implementations require both days to match as soon as one of them contains a *.
                whole = item.replace("*", f"{field.low}-{field.high}")
                yield _ambiguous(f"{field.name}: {item}, while both days are restricted,", whole)
