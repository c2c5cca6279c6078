"""The outcomes of the times of a schedule: entries of its history, skipped times, and their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import SCHEMA_VERSION
from shardmill.engine.schedules.catch_up import Decision
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import ScheduleRow
from shardmill.store.schedules import Skip

NOT_STARTED = ("skipped", "missed", "late", "refused", "exists")
SCHEDULE_SKIPPED = "Schedule Skipped"
_REASONS = {
    "late": "later than maxLatenessSeconds allows",
    "missed": "missed by the tick, and catchUp does not include it",
}

Entry = dict[str, Any]


def no_job(outcome: str, reason: str) -> Entry:
    return {"outcome": outcome, "reason": reason[:500]}


def skipped_entry(decision: Decision, now: int) -> Entry:
    assert decision.skipped
    first, last = decision.skipped
    times = {"time": first, "until": last} if last > first else {"time": first}
    return {**times, "firedTime": now, **no_job(decision.outcome, _REASONS[decision.outcome])}


def skips(entries: Sequence[Entry]) -> list[Skip]:
    """Return the ranges of times without a Job; a Job that existed already counts if its time is the same."""
    without_job = [each for each in entries if each["outcome"] in NOT_STARTED and not each.get("same")]
    return [(each["time"], each["until"] if "until" in each else each["time"]) for each in without_job]


def publish_skipped(mill: Mill, row: ScheduleRow, entries: Iterable[Entry]) -> None:
    """Publish the times that started no Job, best effort; the schedule's history has them in any case."""
    for entry in entries:
        if entry["outcome"] in NOT_STARTED and entry["outcome"] != "exists":
            detail = {
                "schemaVersion": SCHEMA_VERSION,
                "jobName": row.job_name,
                "scheduleId": row.id,
                "time": from_ms(entry["time"]).isoformat(),
                "until": from_ms(entry["until"]).isoformat() if "until" in entry else None,
                "outcome": entry["outcome"],
                "reason": entry["reason"],
            }
            mill.bus.publish_best_effort(SCHEDULE_SKIPPED, detail)
