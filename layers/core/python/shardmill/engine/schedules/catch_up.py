"""Which time of a schedule is to be fired now, and which ones are given up: pure decisions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from shardmill.model.base import from_ms, to_ms
from shardmill.model.time.schedule import Schedule
from shardmill.model.time.timetable import Timetable

ON_TIME_MS = 120_000
"""A time that the tick meets within this is on time; an older one was missed, and `catchUp` decides."""

TICK_MS = 60_000
"""Ticks come each minute: a shorter `maxLatenessSeconds` would leave times out by chance."""


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
    oldest = first
    if schedule.max_lateness_seconds is not None:
        oldest = max(first, now - max(schedule.max_lateness_seconds * 1000, TICK_MS))
    since = oldest if schedule.catch_up == "all" else max(oldest, now - ON_TIME_MS)
    time = first if since == first else following(table, since - 1)
    if (time is None or time > now) and schedule.catch_up == "latest":
        time = latest(table, oldest, now)
    outcome = "late" if oldest > first else "missed"
    if time is None or time > now:
        return Decision(None, following(table, now), (first, _last(table, first, now)), outcome)
    if time == first:
        return Decision(time, following(table, time))
    return Decision(time, following(table, time), (first, _last(table, first, time - 1)), outcome)


def _last(table: Timetable, first: int, until: int) -> int:
    found = latest(table, first, until)
    return first if found is None else found


def following(table: Timetable, moment: int) -> int | None:
    """The first time after a moment."""
    found = table.after(from_ms(moment))
    return None if found is None else to_ms(found)


def latest(table: Timetable, start: int, end: int) -> int | None:
    """The last time from start to end, both included, without going through all of them."""
    span = 60_000
    while True:
        begin = max(start, end - span)
        found = deque(table.times(from_ms(begin), from_ms(end + 1)), maxlen=1)
        if found:
            return to_ms(found[0])
        if begin == start:
            return None
        span *= 8
