"""Each minute: fire the schedules that are due, go on with backfills, mend what a crash left."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.engine.mill import Mill
from shardmill.engine.repair import look_at_jobs


def tick(mill: Mill, now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """How many Jobs were looked at, how many schedules were due, what could not be done now."""
    result = {"due": 0, "handed": 0, "fired": 0, "notFired": 0}
    if next(mill.schedules.due(now), None):
        from shardmill.engine.fire import fire_due  # cron is imported only when there is a time to work out

        result |= fire_due(mill, now, new_id)
    if next(mill.schedules.due_backfills(now), None):
        from shardmill.engine.backfill import look_at_due

        look_at_due(mill, now, new_id)
    return result | look_at_jobs(mill, now, new_id)
