"""Which time of a schedule is to be fired now, and which ones are given up: pure decisions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardmill.model.base import from_ms, to_ms
from shardmill.model.schedule import Schedule
from shardmill.model.timetable import Timetable

ON_TIME_MS = 120_000
"""A time that the tick meets within this is on time; an older one was missed, and `catchUp` decides."""

_MOMENT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the times of a schedule that have come."""

    fire: int | None
    next: int | None
    given_up: tuple[int, int] | None = None
    outcome: str = ""


def decide(schedule: Schedule, first: int, now: int) -> Decision:
    """`first`: the earliest time of which nothing was decided yet, not after `now`."""
    table = schedule.timetable
    lateness = schedule.max_lateness_seconds
    oldest = first if lateness is None else max(first, now - lateness * 1000)
    since = oldest if schedule.catch_up == "all" else max(oldest, now - ON_TIME_MS)
    time = first if since == first else _from(table, since)
    if (time is None or time > now) and schedule.catch_up == "latest":
        found = latest(table, from_ms(oldest), from_ms(now))
        time = to_ms(found) if found else None
    if time is None or time > now:
        return Decision(None, following(table, now), (first, now), _outcome(first, oldest))
    given_up = (first, time - 1) if time > first else None
    return Decision(time, following(table, time), given_up, _outcome(first, oldest) if given_up else "")


def following(table: Timetable, moment: int) -> int | None:
    """The first time after a moment."""
    found = table.after(from_ms(moment))
    return None if found is None else to_ms(found)


def latest(table: Timetable, start: datetime, end: datetime) -> datetime | None:
    """The last time from start to end, both included, without going through all of them."""
    span = timedelta(minutes=1)
    while True:
        begin = max(start, end - span)
        found = deque(table.times(begin, end + _MOMENT), maxlen=1)
        if found:
            return found[0]
        if begin == start:
            return None
        span *= 8


def _from(table: Timetable, moment: int) -> int | None:
    return following(table, moment - 1)


def _outcome(first: int, oldest: int) -> str:
    return "late" if oldest > first else "missed"
