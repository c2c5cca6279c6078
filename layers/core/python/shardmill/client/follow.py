"""Watching what goes on: a Job or a backfill until it is over, a log until its task has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from shardmill.client.errors import ServerError, Unreachable, WaitTimedOut
from shardmill.model.base import Answer
from shardmill.model.job import Job, Task
from shardmill.model.states import JobState, StepState
from shardmill.model.time.schedule import Backfill

T = TypeVar("T")

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
LOG_PAUSE = 0.5
OUTAGE_SECONDS = 60.0


class LogPage(Answer):
    """A piece of a log; `offset` is where the next one begins, `complete` whether nothing more will come."""

    text: str
    offset: int
    complete: bool


def is_over(job: Job) -> bool:
    """Whether nothing will happen to a Job unless somebody asks for it."""
    return job.state.ended or failed_and_suspended(job)


def failed_and_suspended(job: Job) -> bool:
    """`onFailure: suspend` stops a Job that would fail, until somebody mends and resumes it."""
    return job.state is JobState.SUSPENDED and any(step.state is StepState.FAILED for step in job.steps)


def wait_for(look: Callable[[], Job], timeout: float | None, on_update: Callable[[Job], None] | None) -> Job:
    """Look at a Job until it is over."""

    def late(job: Job, after: str) -> WaitTimedOut:
        return WaitTimedOut(
            f"the Job {job.job_name}/{job.trigger} is still {job.state.value} {after}", job=job
        )

    return _watch(look, is_over, late, timeout, on_update)


def wait_for_backfill(
    look: Callable[[], Backfill], timeout: float | None, on_update: Callable[[Backfill], None] | None
) -> Backfill:
    """Look at a backfill until it starts no more Jobs and none of them runs."""

    def is_settled(backfill: Backfill) -> bool:
        return backfill.state != "RUNNING" and not backfill.running

    def late(backfill: Backfill, after: str) -> WaitTimedOut:
        name = f"backfill {backfill.number} of {backfill.job_name}/{backfill.schedule_id}"
        return WaitTimedOut(f"{name} is still {backfill.state} {after}", backfill=backfill)

    return _watch(look, is_settled, late, timeout, on_update)


def _watch(
    look: Callable[[], T],
    over: Callable[[T], bool],
    late: Callable[[T, str], WaitTimedOut],
    timeout: float | None,
    on_update: Callable[[T], None] | None,
) -> T:
    """Look at something, less and less often, until it is over; an outage of a minute is sat out."""
    start = last_seen = time.monotonic()
    found = look()
    while True:
        if on_update:
            on_update(found)
        if over(found):
            return found
        elapsed = time.monotonic() - start
        left = None if timeout is None else timeout - elapsed
        if left is not None and left <= 0:
            raise late(found, f"after {elapsed:.0f} s")
        pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, elapsed / 20))
        time.sleep(pause if left is None else min(pause, left))
        try:
            found, last_seen = look(), time.monotonic()
        except (Unreachable, ServerError):
            if time.monotonic() - last_seen > OUTAGE_SECONDS:
                raise


def read_log(page: Callable[[int, int | None], LogPage], attempt: int | None = None) -> Iterator[str]:
    """What there is now of a log: of the last attempt, unless one is named."""
    offset = 0
    while True:
        found = page(offset, attempt)
        if found.text:
            yield found.text
        if found.complete or not found.text:
            return
        offset = found.offset


def follow_log(task: Callable[[], Task], page: Callable[[int, int | None], LogPage]) -> Iterator[str]:
    """The log of every attempt from the present one on, until the task has ended."""
    followed = 0
    while True:
        seen = task()
        if seen.attempt > followed:
            followed = seen.attempt
            yield from follow_attempt(page, followed)
        elif seen.state.ended:
            return
        else:
            time.sleep(LOG_PAUSE)


def follow_attempt(page: Callable[[int, int | None], LogPage], attempt: int) -> Iterator[str]:
    """The log of one attempt, until it or its task has ended."""
    offset = 0
    while True:
        found = page(offset, attempt)
        offset = found.offset
        if found.text:
            yield found.text
        if found.complete:
            return
        if not found.text:
            time.sleep(LOG_PAUSE)
