"""Store attempts: the reports of their workers, or the reasons why they ended without a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill.engine.mill import Mill
from shardmill.engine.tasks.retry import DISCARDED, TIMED_OUT, Outcome
from shardmill.model.blocks import Shard
from shardmill.model.timestamps import to_ms
from shardmill.store.rows import StepRow

if TYPE_CHECKING:  # the state machines' function needs none of the workers' models
    from shardmill.model.worker import Result

LOST = "lost"
RETURNED = "returned"
TAIL = 4096
_REASONS = (TIMED_OUT, DISCARDED)


@dataclass(frozen=True, slots=True)
class ReportedAttempt:
    """The result of an attempt, and when the attempt was leased."""

    rank: int
    result: Result
    start_time: int


def store_reported(
    mill: Mill,
    worker_id: str,
    step: StepRow,
    attempts: Iterable[ReportedAttempt],
    now: int,
    *,
    reason: str = "",
) -> None:
    """Store reported attempts, with `reason` instead of the worker's; a success only if it has a log."""
    stored: list[tuple[StepRow, int, dict[str, Any]]] = []
    for reported in attempts:
        result = reported.result
        failed = result.outcome != Outcome.SUCCESS.value
        attempt = {
            "attempt": result.attempt,
            "worker": worker_id,
            "outcome": result.outcome,
            "exitCode": result.exit_code,
            "reason": (reason or _reason(result)) if failed or reason else None,
            "message": _message(step, result) if failed else None,
            "startTime": reported.start_time,
            "endTime": end_time(result, reported.start_time, now),
            "stdout": (result.stdout or "")[-TAIL:] or None,
            "stderr": (result.stderr or "")[-TAIL:] or None,
        }
        if attempt["reason"] or attempt["stdout"] or attempt["stderr"]:
            present = {name: value for name, value in attempt.items() if value is not None}
            stored.append((step, reported.rank, present))
    if stored:
        mill.shards.put_attempts(stored)


def end_time(result: Result, start_time: int, now: int) -> int:
    """The end time that the worker reports, limited to the time since the lease."""
    return now if result.end_time is None else min(max(to_ms(result.end_time), start_time), now)


def _message(step: StepRow, result: Result) -> str | None:
    if result.reason == TIMED_OUT:
        return f"longer than timeoutSeconds, {step.settings.timeout_seconds}"
    return None if result.reason == DISCARDED else result.reason


def _reason(result: Result) -> str:
    if result.reason in _REASONS:
        return result.reason
    return "rejected" if result.outcome == Outcome.REJECTED.value else "failed"


def store_unreported(mill: Mill, step: StepRow, shards: Mapping[int, Shard], reason: str, now: int) -> None:
    """Store attempts that ended without a report. `shards` are their values before the end, by rank."""
    message = {
        LOST: "its worker sent no heartbeat for longer than the lease",
        TIMED_OUT: f"longer than timeoutSeconds, {step.settings.timeout_seconds}; its worker did not end it",
    }[reason]
    mill.shards.put_attempts(
        (step, rank, _unreported(shard, reason, message, now)) for rank, shard in shards.items()
    )


def store_returned(mill: Mill, returned: Iterable[tuple[StepRow, int, Shard, str]], now: int) -> None:
    """Store attempts that workers returned: step, rank, value before, and the worker's reason."""
    mill.shards.put_attempts(
        (step, rank, _unreported(shard, RETURNED, why or "its worker returned it", now))
        for step, rank, shard, why in returned
    )


def _unreported(shard: Shard, reason: str, message: str, now: int) -> dict[str, Any]:
    return {
        "attempt": shard.attempt,
        "worker": shard.worker_id,
        "startTime": shard.time,
        "endTime": now,
        "reason": reason,
        "message": message,
    }


def is_recorded(mill: Mill, step: StepRow, rank: int, shard: Shard) -> bool:
    """Whether anything is stored of the attempt of a leased shard."""
    known = {(each["attempt"], each["worker"]) for each in mill.shards.attempts(step, rank)}
    return (shard.attempt, shard.worker_id) in known


def ended_unreported(mill: Mill, step: StepRow, rank: int, attempt: int, worker_id: str) -> bool:
    """Whether a worker's attempt ended without a report."""
    return any(
        (each["attempt"], each["worker"]) == (attempt, worker_id) and not _has_report(each)
        for each in mill.shards.attempts(step, rank)
    )


def _has_report(attempt: dict[str, Any]) -> bool:
    return "outcome" in attempt


def list_attempts(mill: Mill, step: StepRow, rank: int) -> list[dict[str, Any]]:
    """The attempts of a task, one entry each. A report that came too late only adds exit code and output."""
    entries: dict[tuple[int, str], dict[str, Any]] = {}
    for each in sorted(
        mill.shards.attempts(step, rank), key=lambda each: (each["attempt"], _has_report(each))
    ):
        known = entries.setdefault((each["attempt"], each["worker"]), each)
        if not _has_report(known):
            known |= {name: each[name] for name in ("exitCode", "stdout", "stderr") if name in each}
    return list(entries.values())
