"""The meaning of a schedule's expression in words, such as "at 18:00 on Monday to Friday"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from shardmill.model.time.calendar_times import (
    ALL_DAYS,
    ALL_HOURS,
    ALL_MINUTES,
    ALL_MONTHS,
    ALL_YEARS,
    Calendar,
    DayRule,
    LastDay,
    MonthDays,
    NearestWeekday,
    NthWeekday,
    Weekdays,
)
from shardmill.model.time.cron import MACROS
from shardmill.model.time.cron_dialects import (
    Interval,
    Once,
    named_dialect,
    parse_dialect,
    read_five_fields,
)

if TYPE_CHECKING:
    from shardmill.model.time.schedule import Schedule

_MAX_LISTED = 6
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def describe_schedule(schedule: Schedule) -> str:
    """The times of a schedule in words, with its limits and its time zone."""
    parts = [_times(schedule)]
    if schedule.max_times is not None:
        parts.append(_number(schedule.max_times, "time"))
    if schedule.start_date and schedule.every_months is None:
        parts.append(f"from {_day_or_instant(schedule.start_date)}")
    if schedule.end_date:
        parts.append(f"until {_day_or_instant(schedule.end_date)}")
    if schedule.timezone != "UTC" and (schedule.cron is not None or schedule.every_months is not None):
        parts.append(f"{schedule.timezone} time")
    return ", ".join(parts)


def _times(schedule: Schedule) -> str:
    if schedule.every_seconds is not None:
        return describe_interval(schedule.every_seconds)
    if schedule.delay_seconds is not None:
        return f"{duration(schedule.delay_seconds)} after the end of the previous job"
    if schedule.every_months is not None:
        every = f"every {_number(schedule.every_months, 'month')}".replace("every 1 month", "every month")
        return f"{every} from {_day_or_instant(schedule.start_date)}"
    if schedule.times:
        return f"at {_number(len(set(schedule.times)), 'listed time')}"
    if schedule.at is not None:
        return f"once, at {schedule.at:%Y-%m-%d %H:%M:%S} UTC"
    assert schedule.cron is not None
    return describe_expression(schedule.cron)


def _day_or_instant(value: date | None) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else str(value)


def describe_expression(text: str) -> str:
    """The meaning of a valid expression."""
    parsed = parse_dialect(text) if named_dialect(text) else read_five_fields(MACROS.get(text, text))
    if isinstance(parsed, Interval):
        return describe_interval(parsed.seconds)
    if isinstance(parsed, Once):
        return f"once, at {parsed.wall}"
    return _describe(parsed)


def describe_interval(seconds: int) -> str:
    return f"every {duration(seconds)}".replace("every 1 ", "every ")


def duration(seconds: int) -> str:
    for size, unit in _UNITS:
        if seconds % size == 0:
            return _number(seconds // size, unit)
    return _number(seconds, "second")


def _describe(calendar: Calendar) -> str:
    days = " or ".join(_day(rule) for rule in calendar.days)
    time = _time(calendar)
    if not days and ":" in time:
        days = "every day"
    months = "" if calendar.months == ALL_MONTHS else f"in {_listed(calendar.months, _month)}"
    years = "" if calendar.years == ALL_YEARS else _years(calendar.years)
    return " ".join(part for part in (time, days, months, years) if part)


def _years(years: tuple[int, ...]) -> str:
    step = years[1] - years[0] if len(years) > _MAX_LISTED else 1
    if step > 1 and years == tuple(range(years[0], ALL_YEARS[-1] + 1, step)):
        return f"every {_number(step, 'year')} from {years[0]}"
    return f"in {_listed(years, str)}"


def _time(calendar: Calendar) -> str:
    hours, minutes, seconds = calendar.hours, calendar.minutes, calendar.seconds
    if len(hours) * len(minutes) * len(seconds) <= _MAX_LISTED:
        show = "{:02}:{:02}" if seconds == (0,) else "{:02}:{:02}:{:02}"
        return f"at {_joined([show.format(*each) for each in _product(hours, minutes, seconds)])}"
    if (minutes, seconds) == ((0,), (0,)) and (found := _every(hours, ALL_HOURS, "hour")):
        return found
    parts = []
    if seconds != (0,):
        parts.append(_every(seconds, ALL_MINUTES, "second") or _values("second", seconds))
    if minutes != ALL_MINUTES or not (parts and parts[-1].startswith("every")):
        parts.append(_every(minutes, ALL_MINUTES, "minute") or _values("minute", minutes))
    if hours != ALL_HOURS:
        parts.append(_values("hour", hours))
    elif not parts[-1].startswith("every"):
        parts.append("every hour")
    first, *others = parts
    return " of ".join([first if first.startswith("every") else f"at {first}", *others])


def _product(
    hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]
) -> list[tuple[int, int, int]]:
    return [(hour, minute, second) for hour in hours for minute in minutes for second in seconds]


def _every(values: tuple[int, ...], whole: tuple[int, ...], unit: str) -> str:
    """`every 5 minutes` if the values are evenly spaced around the clock, else nothing."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if not step or len(whole) % step or values != whole[::step]:
        return ""
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _values(unit: str, values: Sequence[int]) -> str:
    return f"{unit}{'' if len(values) == 1 else 's'} {_listed(values, str)}"


def _day(rule: DayRule) -> str:
    match rule:
        case MonthDays(values) if values == ALL_DAYS:
            return ""
        case MonthDays(values):
            return f"on {_values('day', values)} of the month"
        case LastDay(before, on_weekday):
            day = "the last day of the month"
            if before:
                day = f"the day {_number(before, 'day')} before {day}"
            return f"on the weekday (Monday to Friday) nearest to {day}" if on_weekday else f"on {day}"
        case NearestWeekday(day):
            return f"on the weekday (Monday to Friday) nearest to day {day} of the month"
        case NthWeekday(weekday, number):
            return f"on the {_ORDINALS[number]} {_WEEKDAYS[weekday]} of the month"
        case Weekdays(values):
            monday_first = sorted((value - 1) % 7 for value in values)
            return f"on {_listed(monday_first, lambda value: _WEEKDAYS[(value + 1) % 7])}"
    raise AssertionError(rule)


def _month(number: int) -> str:
    return _MONTHS[number - 1]


def _listed(values: Sequence[int], show: Callable[[int], str]) -> str:
    """`1, 5 and 9`; three or more consecutive values are `1 to 5`."""
    runs: list[list[int]] = [[values[0]]]
    for one, other in pairwise(values):
        if other == one + 1:
            runs[-1].append(other)
        else:
            runs.append([other])
    shown: list[str] = []
    for run in runs:
        if len(run) > 2:
            shown.append(f"{show(run[0])} to {show(run[-1])}")
        else:
            shown += [show(value) for value in run]
    return _joined(shown)


def _joined(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _number(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
