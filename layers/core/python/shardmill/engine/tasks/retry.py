"""Decide what happens to a task: pure functions from the value of its shard to the next value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from shardmill.model.blocks import Shard
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    FAILED_PERMANENT = "failed-permanent"
    REJECTED = "rejected"


DISCARDED = "discarded"
TIMED_OUT = "timed-out"
TIMEOUT_GRACE_MS = 15_000  # for a worker to kill a task after its timeout and to report it
LONGEST_WAIT = 366 * 86_400.0


class Rules(NamedTuple):
    """Retry limits, intervals and timeout of a step's tasks; times are in seconds."""

    failed_retries: int
    failed_interval: float
    failed_backoff: float
    reject_retries: int
    reject_interval: float
    lost_retries: int
    timeout: int | None = None
    attempts_before: int = 0

    @classmethod
    def of(cls, step: StepRow) -> Rules:
        settings = step.settings
        timeout = settings.timeout_seconds if step.longest is None else step.longest or None
        return cls(
            settings.failed_retries,
            settings.failed_interval,
            settings.failed_backoff,
            settings.reject_retries,
            settings.reject_interval,
            settings.lost_retries,
            timeout,
            step.attempts_before,
        )

    def next_attempt(self, shard: Shard) -> int:
        """The number of a new attempt. It counts on from the earlier runs of the step."""
        return max(shard.attempt, self.attempts_before) + 1

    def overdue(self, shard: Shard, now: int) -> bool:
        """Whether an attempt exceeded its timeout and the grace period for its worker's report."""
        if shard.state is not TaskState.RUNNING or self.timeout is None:
            return False
        return shard.time + self.timeout * 1000 + TIMEOUT_GRACE_MS <= now


@dataclass(frozen=True, slots=True)
class Take:
    """Lease the task; `shard` is the new value."""

    shard: Shard


@dataclass(frozen=True, slots=True)
class End:
    """End the task without a worker; `shard` is the new value."""

    shard: Shard


@dataclass(frozen=True, slots=True)
class Bounce:
    """Leave the task to another worker."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Hide the message for a time."""

    ms: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Delete the message, after the consequences of the task's end were applied again."""


Verdict = Take | End | Bounce | Wait | Settled


def any_of(verdicts: Iterable[Verdict], *kinds: type[Verdict]) -> bool:
    return any(isinstance(verdict, kinds) for verdict in verdicts)


def on_delivery(
    shard: Shard,
    rules: Rules,
    *,
    worker: str,
    now: int,
    lease_ms: int,
    holder_alive: bool,
    stopping: bool,
    suits: bool = True,
) -> Verdict:
    """Decide what to do when a worker receives the message of a task.

    `suits`: whether the worker can run the task, and should not leave it to another.
    """
    if shard.state is TaskState.READY and not stopping:
        if shard.time > now:
            return Wait(shard.time - now)
        return Take(_leased(shard, rules, worker, now)) if suits else Bounce()
    if shard.state is not TaskState.RUNNING:
        return Settled()
    if holder_alive:
        left = shard.time + lease_ms - now
        return Wait(left if left > 0 else lease_ms // 3)
    lost = shard.evolve(losses=shard.losses + 1, span=max(0, now - shard.time))
    if stopping:
        return End(lost.evolve(state=TaskState.KILLED))
    if lost.losses > rules.lost_retries:
        return End(lost.evolve(state=TaskState.FAILED))
    return Take(_leased(lost, rules, worker, now)) if suits else Bounce()


def on_report(
    shard: Shard,
    rules: Rules,
    outcome: Outcome,
    *,
    reason: str,
    now: int,
    stopping: bool,
    end_time: int | None = None,
    compute_ms: int | None = None,
) -> Shard:
    """The new value of a shard after the worker that holds it reported an outcome.

    `end_time`: when the attempt ended, if the worker says it; otherwise, it ended with the report.
    `compute_ms`: how long the attempt ran, if the worker says it; otherwise, it began with the lease.
    """
    end = now if end_time is None else end_time
    start = shard.time if compute_ms is None else max(0, end - compute_ms)
    ended = shard.evolve(time=start, span=max(0, end - start))
    if outcome is Outcome.SUCCESS:
        return ended.evolve(state=TaskState.SUCCESS)
    if outcome is Outcome.FAILED_PERMANENT:
        return ended.evolve(state=TaskState.FAILED, failures=shard.failures + 1)
    if reason == DISCARDED:
        return ended.evolve(state=TaskState.KILLED) if stopping else on_hand_back(shard, now)
    if stopping:
        killed = outcome is Outcome.REJECTED
        return ended.evolve(state=TaskState.KILLED if killed else TaskState.FAILED)
    if outcome is Outcome.REJECTED:
        rejected = ended.evolve(rejections=shard.rejections + 1)
        return _retry_or_fail(
            rejected, rejected.rejections <= rules.reject_retries, rules.reject_interval, now
        )
    failed = ended.evolve(failures=shard.failures + 1)
    interval = min(
        rules.failed_interval * rules.failed_backoff ** min(failed.failures - 1, 100), LONGEST_WAIT
    )
    return _retry_or_fail(failed, failed.failures <= rules.failed_retries, interval, now)


def on_hand_back(shard: Shard, now: int) -> Shard:
    """The new value of a shard whose worker returns it: not a failure, and the attempt number stays."""
    return _waiting(shard, now, now)


def _leased(shard: Shard, rules: Rules, worker: str, now: int) -> Shard:
    attempt = rules.next_attempt(shard)
    return shard.evolve(
        state=TaskState.RUNNING, attempt=attempt, worker=worker, time=now, span=0, leased=0, ended=0
    )


def _retry_or_fail(shard: Shard, retry: bool, interval: float, now: int) -> Shard:
    if not retry:
        return shard.evolve(state=TaskState.FAILED)
    return _waiting(shard, now + int(interval * 1000), now)


def _waiting(shard: Shard, until: int, now: int) -> Shard:
    """A shard that may be leased again from `until` on."""
    return shard.evolve(state=TaskState.READY, time=until, span=0, leased=shard.time, ended=now)


def too_many_failures(tolerated: int | str, failures: int, total: int) -> bool:
    """Whether failures exceed `tolerated`, a number or a percentage of the tasks."""
    if isinstance(tolerated, str):
        return failures * 100 > float(tolerated.removesuffix("%")) * total
    return failures > tolerated
