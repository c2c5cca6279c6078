"""How far a backfill is, and what its end means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardmill.cli.counts import Count
from shardmill.cli.exits import JOB_FAILED
from shardmill.cli.output import message
from shardmill.cli.wording import without_routes

if TYPE_CHECKING:
    from shardmill.model.schedule import Backfill


def count(backfill: Backfill) -> Count:
    numbers = {
        "done": backfill.success,
        "failed": backfill.failed,
        "skipped": backfill.skipped,
        "running": backfill.running,
    }
    name = f"backfill {backfill.number} of {backfill.job_name} {backfill.schedule_id} {backfill.state}"
    return Count(name, backfill.total, backfill.success + backfill.failed + backfill.skipped, numbers)


def verdict(backfill: Backfill) -> int:
    """The exit code for a backfill that is over: 0 if each of its times was run or need not be."""
    if backfill.success + backfill.skipped == backfill.total:
        return 0
    left = backfill.total - count(backfill).ended
    words = [f"{backfill.failed} failed"] if backfill.failed else []
    words += [f"{left} did not run"] if left else []
    notes = f": {without_routes(backfill.notes)}" if backfill.notes else ""
    message(f"of {backfill.total} times {' and '.join(words)}{notes}")
    message(f"see the Jobs with: shardmill jobs --job {backfill.job_name}")
    return JOB_FAILED
