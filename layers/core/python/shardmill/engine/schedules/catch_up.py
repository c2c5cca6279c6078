"""Decide which due time of a schedule fires now and which are skipped (`catchUp`, `maxLatenessSeconds`)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from shardmill.model.time.schedule import Schedule
from shardmill.model.time.timetable import Timetable
from shardmill.model.timestamps import from_ms, to_ms

ON_TIME_MS = 120_000
"""A time that a tick sees within this interval is on time; `catchUp` applies to older ones."""

TICK_MS = 60_000
"""The interval of the tick: with a shorter `maxLatenessSeconds`, times would be skipped at random."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on the due times of a schedule.

    `fire`: the time that fires now. `next`: the time to decide on next. `skipped`: the first and last time
    that do not fire, with `outcome` (`late` or `missed`) as the reason.
    """

    fire: int | None
    next: int | None
    skipped: tuple[int, int] | None = None
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Visit:
    """A pass over due schedules, in the tick that found them or in a later invocation that continues it.

    Times up to `now` are decided on. Times from `met` on were seen by a tick while they were on time, so they
    fire however late they are now. `until`: when the next tick is expected. `ahead`: the visit was handed
    over before its time, so no tick has seen the times that it decides on.
    """

    now: int
    met: int
    until: int
    ahead: bool = False

    @classmethod
    def of_tick(cls, now: int, punctual_since: int) -> Visit:
        """The visit of a tick; `punctual_since`: the first of the ticks that followed each other in time."""
        return cls(now, punctual_since - ON_TIME_MS, now + TICK_MS)

    @classmethod
    def at_time(cls, time: int) -> Visit:
        """The visit at a time that was handed over before."""
        return replace(cls.of_tick(time, time), ahead=True)

    def since(self, *starts: int) -> Visit:
        """The same visit to a schedule that ticks could not fire before these times."""
        return replace(self, met=max(self.met, *(start - ON_TIME_MS for start in starts)))

    def at(self, now: int) -> Visit:
        """The same visit, continued at a later time."""
        return replace(self, now=now)

    def recorded(self, clock: int) -> int:
        """The time to record for the actions of a visit: the clock's, unless the visit is for another
        time."""
        return clock if 0 <= clock - self.now <= ON_TIME_MS else self.now

    def leaves(self, first: int) -> bool:
        """Whether a schedule with this undecided time is left to the tick, which knows if it was seen."""
        return self.ahead and first < self.now - ON_TIME_MS


def punctual_since(known: tuple[int, int] | None, now: int) -> int:
    """Return the first of the ticks that followed each other in time, up to the tick at `now`.

    `known`: that first one and the last, as of the latest tick recorded.
    """
    if known is None:
        return now
    first, last = known
    return min(first, now) if now - last <= ON_TIME_MS else now


def decide(schedule: Schedule, first: int, visit: Visit) -> Decision:
    """Decide on the due times; `first` is the earliest one not decided on yet, not after `visit.now`."""
    table, now = schedule.timetable, visit.now
    oldest = first
    if schedule.max_lateness_seconds is not None:
        oldest = max(first, now - max(schedule.max_lateness_seconds * 1000, TICK_MS))
    since = oldest if schedule.catch_up == "all" else max(oldest, min(visit.met, now - ON_TIME_MS))
    time = first if since == first else next_time(table, since - 1)
    if (time is None or time > now) and schedule.catch_up == "latest":
        time = latest(table, oldest, now)
    outcome = "late" if oldest > first else "missed"
    if time is None or time > now:
        return Decision(None, next_time(table, now), (first, _last(table, first, now)), outcome)
    if time == first:
        return Decision(time, next_time(table, time))
    return Decision(time, next_time(table, time), (first, _last(table, first, time - 1)), outcome)


def _last(table: Timetable, first: int, until: int) -> int:
    found = latest(table, first, until)
    return first if found is None else found


def next_time(table: Timetable, moment: int) -> int | None:
    """Return the first time after a moment."""
    found = table.after(from_ms(moment))
    return None if found is None else to_ms(found)


def latest(table: Timetable, start: int, end: int) -> int | None:
    """Return the last time from start to end, both inclusive, without iterating over all of them."""
    span = 60_000
    while True:
        begin = max(start, end - span)
        found = deque(table.times(from_ms(begin), from_ms(end + 1)), maxlen=1)
        if found:
            return to_ms(found[0])
        if begin == start:
            return None
        span *= 8
