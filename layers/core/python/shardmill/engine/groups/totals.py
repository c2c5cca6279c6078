"""What workers did, written down: totals, the tasks they failed at, and a rest after too many failures."""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.aws.observability import logger
from shardmill.engine.mill import Mill
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally

FAILURES_IN_A_ROW = 5
_MOST_SKIPS = 1_000


def count(
    mill: Mill, worker_id: str, tally: Tally, now: int, *, taken: Iterable[str] = ()
) -> WorkerRow | None:
    """Write down what a worker did; its row, None if it has none (as the Lambda runner)."""
    longest = tally.longest
    if tally.before:  # a success ends the row that was written down before: how long had it become?
        failed = mill.workers.add_failures(worker_id, tally.before)
        longest = max(longest, failed.failures if failed else 0)
    worker = mill.workers.record(worker_id, tally, now=now, taken=taken)
    return rest_if_tired(mill, worker, longest) if worker else None


def rest_if_tired(mill: Mill, worker: WorkerRow, longest: int = 0) -> WorkerRow:
    """Suspend a worker that failed too often in a row; its row as it is then."""
    failures = max(worker.failures, longest)
    if len(worker.skip) > _MOST_SKIPS:
        mill.workers.remove_skips(worker.id, set(sorted(worker.skip)[: _MOST_SKIPS // 2]))
    if failures < FAILURES_IN_A_ROW or worker.tired:
        return worker
    why = f"suspended after {failures} failures in a row"
    tired = mill.workers.suspend_after_failures(worker.id, why)
    if tired:
        logger.warning(why, extra={"action": "suspend-worker", "worker": worker.name})
    return tired or worker


def failed_at(mill: Mill, worker_id: str, task: str, span: int, now: int) -> None:
    """A worker's attempt was ended as failed without its report."""
    tally = Tally()
    tally.failure(task, span)
    count(mill, worker_id, tally, now)
