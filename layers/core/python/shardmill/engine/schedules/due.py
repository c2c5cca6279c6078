"""Fire the schedules that are due: the first chunk in the tick itself, the others through a queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.engine.schedules.fire import FireBatch, NewId, fire_schedule
from shardmill.store.schedules import ScheduleKey

CHUNK = 100  # schedules in a message, and schedules that the tick fires itself


def fire_due(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    """Fire the first chunk of due schedules, then enqueue the others."""
    due = list(dict.fromkeys(mill.schedules.due(now)))
    chunks = [due[at : at + CHUNK] for at in range(0, len(due), CHUNK)]
    fired = fire_all(mill, chunks[0], now, new_id) if chunks else {"fired": 0, "notFired": 0}
    if chunks[1:]:
        bodies = [json.dumps({"now": now, "schedules": chunk}) for chunk in chunks[1:]]
        mill.queues.send_texts(mill.settings.fire_queue, bodies)
    return {"due": len(due), "handed": sum(map(len, chunks[1:]))} | fired


def fire_listed(mill: Mill, message: dict[str, Any], new_id: NewId) -> dict[str, int]:
    """Fire the schedules of a message from `fire_due`, as of the time of that tick."""
    listed = [(job_name, schedule_id) for job_name, schedule_id in message["schedules"]]
    return fire_all(mill, listed, message["now"], new_id)


def fire_all(mill: Mill, listed: Sequence[ScheduleKey], now: int, new_id: NewId) -> dict[str, int]:
    """Fire schedules, each even if another one fails; one that fails stays due."""
    batch = FireBatch(mill, new_id, max(1, len(listed)))
    fired, failed = 0, 0
    for row in mill.schedules.by_key(listed):
        try:
            fired += fire_schedule(batch, row, now)
        except Exception:
            extra = {"action": "fire-schedule", "jobName": row.job_name, "scheduleId": row.id}
            logger.exception("failed to fire a schedule; the next tick will retry", extra=extra)
            failed += 1
    return {"fired": fired, "notFired": failed}
