"""What is kept of attempts: what their workers said, and what was noted of those that said nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.engine.mill import Mill
from shardmill.engine.tasks.retry import TIMED_OUT
from shardmill.model.blocks import Shard
from shardmill.store.rows import StepRow

LOST = "lost"


def keep_cut_off(mill: Mill, step: StepRow, cut: Mapping[int, Shard], reason: str, now: int) -> None:
    """Keep attempts that ended without a report; `cut`: their shards as they were."""
    message = {
        LOST: "its worker was silent for longer than its lease",
        TIMED_OUT: f"longer than timeoutSeconds, {step.settings.timeout_seconds}; its worker let it run",
    }[reason]
    mill.shards.put_attempts(
        (
            step,
            rank,
            {
                "attempt": shard.attempt,
                "worker": shard.worker_id,
                "startTime": shard.time,
                "endTime": now,
                "reason": reason,
                "message": message,
            },
        )
        for rank, shard in cut.items()
    )


def was_cut_off(mill: Mill, step: StepRow, rank: int, attempt: int, worker_id: str) -> bool:
    """Whether an attempt that a worker speaks of too late was really its own."""
    return any(
        (each["attempt"], each["worker"]) == (attempt, worker_id) and not _was_reported(each)
        for each in mill.shards.attempts(step, rank)
    )


def _was_reported(attempt: dict[str, Any]) -> bool:
    """An attempt that was cut off has no outcome: nobody told one."""
    return "outcome" in attempt


def told(mill: Mill, step: StepRow, rank: int) -> list[dict[str, Any]]:
    """The attempts of a task, one entry each: what a worker said too late adds only what it printed."""
    entries: dict[tuple[int, str], dict[str, Any]] = {}
    for each in sorted(
        mill.shards.attempts(step, rank),
        key=lambda each: (each["attempt"], _was_reported(each)),
    ):
        known = entries.setdefault((each["attempt"], each["worker"]), each)
        if not _was_reported(known):
            known |= {name: each[name] for name in ("exitCode", "stdout", "stderr") if name in each}
    return list(entries.values())
