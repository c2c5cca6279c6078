"""Hand schedules over to `functions/fire` through its queue: to be fired at a time, or to continue a visit.

A message only says when to look at schedules: their rows decide. So a lost message makes a firing late (the
next tick finds it), and a repeated one finds nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.mill import AHEAD_MS, Mill
from shardmill.engine.schedules.catch_up import ON_TIME_MS, Visit
from shardmill.model.errors import Transient
from shardmill.store.rows import ScheduleRow
from shardmill.store.schedules import ScheduleKey

AT_A_TIME = 25  # schedules in a message that fires them at their time
CONTINUED = 10  # schedules in a message that continues a visit
_MAX_DELAY = 900  # of an SQS message, in seconds

Clock = Callable[[], int]
Timed = tuple[int, ScheduleKey]
"""A schedule and when to visit it."""


def hand_over(mill: Mill, timed: Iterable[Timed], clock: Clock) -> int:
    """Send messages that fire schedules at their next times; return how many schedules were sent.

    The messages arrive up to a second early, and the receiver waits. Times that are no longer on time are
    left to the tick, which applies `catchUp`.
    """
    now = clock()
    on_time = [(time, key) for time, key in timed if time >= now - ON_TIME_MS]
    _send(mill, _messages(on_time, AT_A_TIME, lambda time: {"now": time, "ahead": True}), now)
    return len(on_time)


def hand_over_saved(mill: Mill, row: ScheduleRow, now: int) -> None:
    """Hand over a schedule that was saved or changed, if no tick will see it before its next time.

    Best effort: a tick fires schedules that were not sent.
    """
    soon = _soon([row], now)
    with _best_effort(row.job_name, row.id):
        hand_over(mill, soon, lambda: now)


def hand_over_resumed(mill: Mill, rows: Sequence[ScheduleRow], now: int) -> None:
    """Hand over schedules of a definition that was resumed, or one that was turned on.

    Overdue times could not fire before, so they are decided on at once, as the tick would do. Best effort.
    """
    soon = _soon(rows, now)
    if soon:
        with _best_effort(rows[0].job_name, *(row.id for row in rows)):
            pass_on(mill, Visit.of_tick(now, now), [key for time, key in soon if time <= now], AT_A_TIME)
            hand_over(mill, [(time, key) for time, key in soon if time > now], lambda: now)


def _soon(rows: Iterable[ScheduleRow], now: int) -> list[Timed]:
    """The schedules whose next time no tick will see before it comes."""
    on = ((row.next, row.key) for row in rows if row.status == 1 and row.next is not None)
    return [(time, key) for time, key in on if time <= now + AHEAD_MS]


@contextmanager
def _best_effort(job_name: str, *schedule_ids: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, Transient):
        extra = {"action": "hand-over", "jobName": job_name, "scheduleId": ", ".join(schedule_ids)}
        logger.warning(
            "failed to hand over schedules; the next tick will fire them", extra=extra, exc_info=True
        )


def pass_on(mill: Mill, visit: Visit, listed: Sequence[ScheduleKey], size: int) -> None:
    """Send schedules that the tick found due to other invocations, `size` to each."""
    due = ((visit.now, key) for key in listed)
    _send(mill, _messages(due, size, lambda _: _fields(visit)), visit.now)


def continue_visit(mill: Mill, visit: Visit, continued: Iterable[Timed], clock: Clock) -> None:
    """Send the schedules that another invocation continues, each at its time."""
    later = _messages(continued, CONTINUED, lambda time: _fields(visit.at(time)))
    _send(mill, later, max(visit.now, clock()))


def visit_of(message: dict[str, Any]) -> tuple[Visit, list[ScheduleKey]]:
    """Read a message: the visit, and the schedules to visit."""
    listed = [(job_name, schedule_id) for job_name, schedule_id in message["schedules"]]
    now = message["now"]
    if message.get("ahead"):
        return Visit.at_time(now), listed
    visit = Visit(now, message["met"], message["until"]) if "met" in message else Visit.of_tick(now, now)
    return visit, listed


def _fields(visit: Visit) -> dict[str, int]:
    return {"now": visit.now, "met": visit.met, "until": visit.until}


def _messages(
    timed: Iterable[Timed], size: int, fields: Callable[[int], dict[str, int]]
) -> Iterator[tuple[int, str]]:
    for time, group in groupby(sorted(timed), key=lambda each: each[0]):
        listed = [key for _, key in group]
        for at in range(0, len(listed), size):
            yield time, json.dumps(fields(time) | {"schedules": listed[at : at + size]})


def _send(mill: Mill, messages: Iterable[tuple[int, str]], now: int) -> None:
    delayed = [(body, min(max(0, time - now) // 1000, _MAX_DELAY)) for time, body in messages]
    mill.queues.send_delayed(mill.settings.fire_queue, delayed)
