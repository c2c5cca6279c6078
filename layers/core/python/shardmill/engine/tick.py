"""Each minute: fire what is due, go on with backfills, see what is late, mend what a crash left."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.engine.repair import repair_due_jobs

NewId = Callable[[], str]


def tick(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    """How many Jobs were looked at, how many schedules were due, what could not be done now.

    What one part meets keeps no other from its work.
    """
    result = {"due": 0, "handed": 0, "fired": 0, "notFired": 0, "late": 0, "looked": 0, "failed": 0}
    broken = 0
    for part in (_fire, _advance_backfills, _handle_deadlines, repair_due_jobs):
        try:
            result |= part(mill, now, new_id)
        except Exception:
            logger.exception("a part of the tick failed", extra={"action": "tick", "part": part.__name__})
            broken += 1
    return result | {"failed": result["failed"] + broken}


def _fire(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    if not next(mill.schedules.due(now), None):
        return {}
    from shardmill.engine.schedules.due import fire_due

    return fire_due(mill, now, new_id)


def _advance_backfills(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    if next(mill.schedules.due_backfills(now), None):
        from shardmill.engine.schedules.backfill import advance_due

        advance_due(mill, now, new_id)
    return {}


def _handle_deadlines(mill: Mill, now: int, _: NewId) -> dict[str, int]:
    if not next(mill.deadlines.due(now, limit=1), None):
        return {}
    from shardmill.engine.jobs.deadlines import handle_missed_deadlines  # few minutes have a deadline in them

    return handle_missed_deadlines(mill, now)
