"""Worker totals: record what workers did, and suspend a worker after too many failures in a row."""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally

FAILURES_IN_A_ROW = 5
_MAX_SKIPS = 1_000


def record_totals(
    mill: Mill, worker_id: str, tally: Tally, now: int, *, taken: Iterable[str] = ()
) -> WorkerRow | None:
    """Add a tally to a worker's row. Returns the row; None if there is none, as for the Lambda runner."""
    longest = tally.longest
    if tally.before:
        # The first success of the tally resets the stored count of failures: read how high it got before.
        failed = mill.workers.add_failures(worker_id, tally.before)
        longest = max(longest, failed.failures if failed else 0)
    worker = mill.workers.record(worker_id, tally, now=now, taken=taken)
    return suspend_after_failures(mill, worker, longest) if worker else None


def suspend_after_failures(mill: Mill, worker: WorkerRow, longest: int = 0) -> WorkerRow:
    """Suspend a worker that failed FAILURES_IN_A_ROW times in a row. Returns its current row."""
    failures = max(worker.failures, longest)
    if len(worker.skip) > _MAX_SKIPS:
        mill.workers.remove_skips(worker.id, set(sorted(worker.skip)[: _MAX_SKIPS // 2]))
    if failures < FAILURES_IN_A_ROW or worker.tired:
        return worker
    why = f"suspended after {failures} failures in a row"
    suspended = mill.workers.suspend_after_failures(worker.id, why)
    if suspended:
        logger.warning(
            "worker suspended after repeated failures; it takes no tasks until it is resumed",
            extra={"action": "suspend-worker", "worker": worker.name, "failures": failures},
        )
    return suspended or worker


def record_failure(mill: Mill, worker_id: str, task: str, span: int, now: int) -> None:
    """Record a failed attempt that ended without a report from its worker."""
    tally = Tally()
    tally.failure(task, span)
    record_totals(mill, worker_id, tally, now)
