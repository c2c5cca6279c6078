"""Fire due schedules, and hand over schedules that are due before the next tick.

The tick fires the first chunk itself, the others through a queue. A schedule that is not done after a visit
stays due and is continued through the queue: at once if it has more times than a visit handles, later if a
time must wait for its turn (`overlap`). A schedule whose next time comes soon is handed over for that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.mill import AHEAD_MS, Mill
from shardmill.engine.schedules.catch_up import ON_TIME_MS, Visit, punctual_since
from shardmill.engine.schedules.fire import FireBatch, NewId, fire_schedule
from shardmill.engine.schedules.hand_over import (
    Clock,
    Timed,
    continue_visit,
    hand_over,
    pass_on,
    visit_of,
)
from shardmill.store.schedules import ScheduleKey

CHUNK = 100  # schedules in a message, and schedules that the tick fires itself
MAX_TIMES_PER_CHUNK = 300  # of all schedules together; the schedules that remain are passed on
_TRIES = 4


@dataclass(slots=True)
class Visited:
    """The result of a visit to several schedules: started Jobs, failed schedules, the largest lag.

    `continued`: the schedules that another visit continues. `coming`: the schedules whose next time comes
    soon.
    """

    started: int = 0
    failed: int = 0
    lag: int = 0
    continued: list[Timed] = field(default_factory=list)
    coming: list[Timed] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return {"fired": self.started, "notFired": self.failed, "lag": self.lag}


def fire_due(mill: Mill, now: int, new_id: NewId, clock: Clock) -> dict[str, int]:
    """Hand over the schedules that are due soon, fire the first chunk of those due, enqueue the others."""
    found: dict[ScheduleKey, int] = {}
    for time, key in mill.schedules.due(now + AHEAD_MS):
        found.setdefault(key, time)
    due = [key for key, time in found.items() if time <= now]
    ahead = [(time, key) for key, time in found.items() if time > now]
    try:
        handed = hand_over(mill, ahead, clock)
    finally:
        fired = _fire_found(mill, due, now, new_id, clock) if due else {}
    return {"handed": handed} | fired | {"handed": handed + fired.get("handed", 0)}


def _fire_found(
    mill: Mill, due: Sequence[ScheduleKey], now: int, new_id: NewId, clock: Clock
) -> dict[str, int]:
    visit = Visit.of_tick(now, _record_tick(mill, now))
    first, others = due[:CHUNK], due[CHUNK:]
    visited = fire_all(mill, first, visit, new_id, clock)
    pass_on(mill, visit, others, CHUNK)
    _go_on(mill, visit, visited, clock)
    handed = len(others) + len(visited.continued)
    return {"due": len(due), "handed": handed} | visited.counts


def _record_tick(mill: Mill, now: int) -> int:
    """Record a tick that found due schedules; return the first of the ticks that followed each other in time.

    These ticks saw the due times on time, even if a later invocation fires them.
    """
    since = now
    for _ in range(_TRIES):
        known = mill.schedules.ticks()
        since = punctual_since(known, now)
        if (known and now <= known[1]) or mill.schedules.record_ticks(known, (since, now)):
            break
    return since


def fire_listed(
    mill: Mill, message: dict[str, Any], new_id: NewId, clock: Clock, wait_until: Callable[[int], None]
) -> dict[str, int]:
    """Fire the schedules of a message, as of the time that it names."""
    visit, listed = visit_of(message)
    if visit.ahead:
        wait_until(visit.now)
        early_or_late = clock() - visit.now
        if early_or_late < 0:
            return {"handed": hand_over(mill, [(visit.now, key) for key in listed], clock)} | Visited().counts
        if early_or_late > ON_TIME_MS:
            return {"handed": 0} | Visited().counts  # the tick decides on it, by catchUp
    visited = fire_all(mill, listed, visit, new_id, clock)
    _go_on(mill, visit, visited, clock)
    return {"handed": len(visited.continued)} | visited.counts


def _go_on(mill: Mill, visit: Visit, visited: Visited, clock: Clock) -> None:
    continue_visit(mill, visit, visited.continued, clock)
    hand_over(mill, visited.coming, clock)


def fire_all(mill: Mill, listed: Sequence[ScheduleKey], visit: Visit, new_id: NewId, clock: Clock) -> Visited:
    """Fire schedules, each even if another one fails; one that fails stays due."""
    batch = FireBatch(mill, new_id, max(1, len(listed)), clock=clock)
    visited, times = Visited(), 0
    for row in mill.schedules.by_key(listed):
        if times >= MAX_TIMES_PER_CHUNK:
            visited.continued.append((visit.now, row.key))
            continue
        try:
            progress = fire_schedule(batch, row, visit)
        except Exception:
            extra = {"action": "fire-schedule", "jobName": row.job_name, "scheduleId": row.id}
            logger.exception("failed to fire a schedule; the next tick will retry", extra=extra)
            visited.failed += 1
            continue
        visited.started += progress.started
        times += progress.times
        if progress.again is not None:
            visited.continued.append((progress.again, row.key))
        if progress.coming is not None:
            visited.coming.append((progress.coming, row.key))
    visited.lag = batch.lag
    return visited
