"""Fire the schedules that are due: the first chunk in the tick itself, the others through a queue.

A schedule that is not done after a visit stays due and is continued through the queue: at once if it has more
times than a visit handles, later in the same minute if a time must wait for its turn (`overlap`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.engine.schedules.catch_up import Visit, punctual_since
from shardmill.engine.schedules.fire import FireBatch, NewId, fire_schedule
from shardmill.store.schedules import ScheduleKey

CHUNK = 100  # schedules in a message, and schedules that the tick fires itself
CONTINUED = 10  # schedules in a message that continues a visit
MAX_TIMES_PER_CHUNK = 300  # of all schedules together; the schedules that remain are passed on
_TRIES = 4

Continued = tuple[int, ScheduleKey]
"""A schedule that is continued, and when."""


def fire_due(mill: Mill, now: int, new_id: NewId) -> dict[str, int]:
    """Fire the first chunk of due schedules, then enqueue the others."""
    due = list(dict.fromkeys(mill.schedules.due(now)))
    if not due:
        return {"due": 0, "handed": 0, "fired": 0, "notFired": 0}
    visit = Visit.of_tick(now, _record_tick(mill, now))
    first, others = due[:CHUNK], due[CHUNK:]
    fired, continued = fire_all(mill, first, visit, new_id)
    _send(mill, visit, others, CHUNK)
    _continue(mill, visit, continued)
    return {"due": len(due), "handed": len(others) + len(continued)} | fired


def _record_tick(mill: Mill, now: int) -> int:
    """Record a tick that found due schedules; return the first of the ticks that followed each other in time.

    What is due was met on time by these ticks, even if a later invocation fires it.
    """
    since = now
    for _ in range(_TRIES):
        known = mill.schedules.ticks()
        since = punctual_since(known, now)
        if (known and now <= known[1]) or mill.schedules.record_ticks(known, (since, now)):
            break
    return since


def fire_listed(mill: Mill, message: dict[str, Any], new_id: NewId) -> dict[str, int]:
    """Fire the schedules of a message from `fire_due`, as of the time of that tick."""
    listed = [(job_name, schedule_id) for job_name, schedule_id in message["schedules"]]
    now = message["now"]
    visit = Visit(now, message["met"], message["until"]) if "met" in message else Visit.of_tick(now, now)
    fired, continued = fire_all(mill, listed, visit, new_id)
    _continue(mill, visit, continued)
    return {"handed": len(continued)} | fired


def fire_all(
    mill: Mill, listed: Sequence[ScheduleKey], visit: Visit, new_id: NewId
) -> tuple[dict[str, int], list[Continued]]:
    """Fire schedules, each even if another one fails; one that fails stays due.

    Returns how many Jobs were started and schedules failed, and the schedules that another visit continues.
    """
    batch = FireBatch(mill, new_id, max(1, len(listed)))
    fired, failed, times = 0, 0, 0
    continued: list[Continued] = []
    for row in mill.schedules.by_key(listed):
        if times >= MAX_TIMES_PER_CHUNK:
            continued.append((visit.now, row.key))
            continue
        try:
            progress = fire_schedule(batch, row, visit)
        except Exception:
            extra = {"action": "fire-schedule", "jobName": row.job_name, "scheduleId": row.id}
            logger.exception("failed to fire a schedule; the next tick will retry", extra=extra)
            failed += 1
            continue
        fired += progress.started
        times += progress.times
        if progress.again is not None:
            continued.append((progress.again, row.key))
    return {"fired": fired, "notFired": failed}, continued


def _continue(mill: Mill, visit: Visit, continued: Sequence[Continued]) -> None:
    """Send the schedules that another visit continues, each with the delay until then."""
    for time, group in groupby(sorted(continued), key=lambda each: each[0]):
        delay = -((visit.now - time) // 1000)  # whole seconds, rounded up
        _send(mill, visit.at(time), [key for _, key in group], CONTINUED, delay=delay)


def _send(mill: Mill, visit: Visit, listed: Sequence[ScheduleKey], size: int, *, delay: int = 0) -> None:
    times = {"now": visit.now, "met": visit.met, "until": visit.until}
    chunks = [listed[at : at + size] for at in range(0, len(listed), size)]
    if chunks:
        bodies = [json.dumps(times | {"schedules": chunk}) for chunk in chunks]
        mill.queues.send_texts(mill.settings.fire_queue, bodies, delay=delay)
