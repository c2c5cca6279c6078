"""The periodic tick: fire due schedules, advance backfills, handle missed deadlines, repair Jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardmill.aws.observability import logger
from shardmill.engine.mill import AHEAD_MS, Mill
from shardmill.engine.repair import repair_due_jobs

COUNT_AGAIN_MS = 86_400_000
"""How often the tick counts rows that are not yet counted against the limits of applications."""

NewId = Callable[[], str]
Clock = Callable[[], int]
Part = Callable[[Mill, int, NewId], dict[str, int]]


def tick(mill: Mill, now: int, new_id: NewId, clock: Clock | None = None) -> dict[str, int]:
    """Run all parts of the tick, each even if another one fails, and return their counts.

    `now`: the time of the tick. `clock`: the current time, for messages with a delay; `now` unless given.
    """
    result = {
        "due": 0,
        "handed": 0,
        "fired": 0,
        "notFired": 0,
        "lag": 0,
        "late": 0,
        "looked": 0,
        "passedOn": 0,
        "failed": 0,
    }
    failed_parts = 0
    parts: dict[str, Part] = {
        "fire-schedules": partial(_fire_schedules, clock=clock or (lambda: now)),
        "advance-backfills": _advance_backfills,
        "handle-deadlines": _handle_deadlines,
        "repair-due-jobs": repair_due_jobs,
        "count-existing": _count_existing,
    }
    for name, part in parts.items():
        try:
            result |= part(mill, now, new_id)
        except Exception:
            extra = {"action": "tick", "part": name}
            logger.exception("a part of the tick failed; the next tick will retry", extra=extra)
            failed_parts += 1
    return result | {"failed": result["failed"] + failed_parts}


def _fire_schedules(mill: Mill, now: int, new_id: NewId, clock: Clock) -> dict[str, int]:
    if not next(mill.schedules.due(now + AHEAD_MS), None):
        return {}
    from shardmill.engine.schedules.due import fire_due

    return fire_due(mill, now, new_id, clock)


def _advance_backfills(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    if next(mill.schedules.due_backfills(now), None):
        from shardmill.engine.schedules.backfill import advance_due

        advance_due(mill, now, new_id)
    return {}


def _count_existing(mill: Mill, now: int, _: NewId) -> dict[str, int]:
    if not mill.settings.limits.any:
        return {}
    limits, counted = mill.usage.counted()
    if limits == mill.settings.limits.text and now - counted < COUNT_AGAIN_MS:
        return {}
    from shardmill.engine.jobs.count_existing import count_existing  # few ticks need it

    count_existing(mill, now)
    return {}


def _handle_deadlines(mill: Mill, now: int, _: NewId) -> dict[str, int]:
    if not next(mill.deadlines.due(now, limit=1), None):
        return {}
    from shardmill.engine.jobs.deadlines import handle_missed_deadlines  # few ticks need it

    return handle_missed_deadlines(mill, now)
