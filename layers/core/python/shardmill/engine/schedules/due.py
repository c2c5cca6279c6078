"""TODO docstring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.engine.schedules.fire import NewId, Stock, fire_schedule
from shardmill.store.schedules import ScheduleKey

CHUNK = 100  # schedules that one message names, and that the tick fires by itself


def fire_due(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    """Fire what is due; of many, all but the first are handed to others, after these were fired."""
    due = list(dict.fromkeys(mill.schedules.due(now)))
    chunks = [due[at : at + CHUNK] for at in range(0, len(due), CHUNK)]
    fired = fire_all(mill, chunks[0], now, new_id) if chunks else {"fired": 0, "notFired": 0}
    if chunks[1:]:
        bodies = [json.dumps({"now": now, "schedules": chunk}) for chunk in chunks[1:]]
        mill.queues.send_texts(mill.settings.fire_queue, bodies)
    return {"due": len(due), "handed": sum(map(len, chunks[1:]))} | fired


def fire_listed(mill: Mill, message: dict[str, Any], new_id: NewId) -> dict[str, int]:
    """Fire what a message of `fire_due` names, as of the time of that tick."""
    listed = [(job_name, schedule_id) for job_name, schedule_id in message["schedules"]]
    return fire_all(mill, listed, message["now"], new_id)


def fire_all(mill: Mill, listed: Sequence[ScheduleKey], now: int, new_id: NewId) -> dict[str, int]:
    """Fire schedules; one that cannot be fired now does not keep the others from it: it stays due."""
    stock = Stock(mill, new_id, max(1, len(listed)))
    fired, failed = 0, 0
    for row in mill.schedules.by_key(listed):
        try:
            fired += fire_schedule(stock, row, now)
        except Exception:
            extra = {"action": "fire-schedule", "jobName": row.job_name, "scheduleId": row.id}
            logger.exception("could not fire a schedule", extra=extra)
            failed += 1
    return {"fired": fired, "notFired": failed}
