"""Wait for a Job or a backfill, and follow the log of a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from shardmill.client.errors import ServerError, Unreachable, WaitTimedOut
from shardmill.model.base import Answer
from shardmill.model.job import Job, Task
from shardmill.model.states import JobState, StepState
from shardmill.model.time.backfill import Backfill

T = TypeVar("T")

MIN_INTERVAL = 0.1
MAX_INTERVAL = 2.0
LOG_INTERVAL = 0.5
OUTAGE_SECONDS = 60.0


class LogPage(Answer):
    """A piece of a log; the next one starts at `offset`, unless the log is `complete`."""

    text: str
    offset: int
    complete: bool


def is_over(job: Job) -> bool:
    """Whether a Job has ended or needs a user to continue."""
    return job.state.ended or failed_and_suspended(job)


def failed_and_suspended(job: Job) -> bool:
    """Whether a failure suspended a Job (`onFailure: suspend`); a user can fix and resume it."""
    return job.state is JobState.SUSPENDED and any(step.state is StepState.FAILED for step in job.steps)


def wait_for(fetch: Callable[[], Job], timeout: float | None, on_update: Callable[[Job], None] | None) -> Job:
    """Poll a Job until it is over."""

    def timed_out(job: Job, after: str) -> WaitTimedOut:
        return WaitTimedOut(
            f"the Job {job.job_name}/{job.trigger} is still {job.state.value} {after}", job=job
        )

    return _poll(fetch, is_over, timed_out, timeout, on_update)


def wait_for_backfill(
    fetch: Callable[[], Backfill], timeout: float | None, on_update: Callable[[Backfill], None] | None
) -> Backfill:
    """Poll a backfill until it has no running Jobs and will start no more."""

    def finished(backfill: Backfill) -> bool:
        return backfill.state != "RUNNING" and not backfill.running

    def timed_out(backfill: Backfill, after: str) -> WaitTimedOut:
        name = f"backfill {backfill.number} of {backfill.job_name}/{backfill.schedule_id}"
        return WaitTimedOut(f"{name} is still {backfill.state} {after}", backfill=backfill)

    return _poll(fetch, finished, timed_out, timeout, on_update)


def _poll(
    fetch: Callable[[], T],
    over: Callable[[T], bool],
    timed_out: Callable[[T, str], WaitTimedOut],
    timeout: float | None,
    on_update: Callable[[T], None] | None,
) -> T:
    """Poll with growing intervals until it is over; tolerate outages of up to a minute."""
    start = last_seen = time.monotonic()
    found = fetch()
    while True:
        if on_update:
            on_update(found)
        if over(found):
            return found
        elapsed = time.monotonic() - start
        left = None if timeout is None else timeout - elapsed
        if left is not None and left <= 0:
            raise timed_out(found, f"after {elapsed:.0f} s")
        interval = min(MAX_INTERVAL, max(MIN_INTERVAL, elapsed / 20))
        time.sleep(interval if left is None else min(interval, left))
        try:
            found, last_seen = fetch(), time.monotonic()
        except (Unreachable, ServerError):
            if time.monotonic() - last_seen > OUTAGE_SECONDS:
                raise


def read_log(page: Callable[[int, int | None], LogPage], attempt: int | None = None) -> Iterator[str]:
    """The current content of the log of an attempt, by default the last one."""
    offset = 0
    while True:
        found = page(offset, attempt)
        if found.text:
            yield found.text
        if found.complete or not found.text:
            return
        offset = found.offset


def follow_log(task: Callable[[], Task], page: Callable[[int, int | None], LogPage]) -> Iterator[str]:
    """The logs of the current and all later attempts, until the task has ended."""
    followed = 0
    while True:
        seen = task()
        if seen.attempt > followed:
            followed = seen.attempt
            yield from follow_attempt(page, followed)
        elif seen.state.ended:
            return
        else:
            time.sleep(LOG_INTERVAL)


def follow_attempt(page: Callable[[int, int | None], LogPage], attempt: int) -> Iterator[str]:
    """The log of one attempt, until it has ended."""
    offset = 0
    while True:
        found = page(offset, attempt)
        offset = found.offset
        if found.text:
            yield found.text
        if found.complete:
            return
        if not found.text:
            time.sleep(LOG_INTERVAL)
