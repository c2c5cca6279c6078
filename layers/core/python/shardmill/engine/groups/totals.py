"""Worker totals: record the work of workers, and suspend a worker that fails where others succeed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from shardmill.aws.observability import logger
from shardmill.engine.groups.matching import live_workers
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id, task_id
from shardmill.model.blocks import Block, Shard, block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow, WorkerRow
from shardmill.store.workers import MAX_FAILING, Failures, Tally

FAILURES_IN_A_ROW = 5
_MAX_SKIPS = 1_000
_KEPT_FAILING = MAX_FAILING // 2
_MAX_COMPARED = 100

StepKey = tuple[str, int, int]


def record_totals(
    mill: Mill,
    worker_id: str,
    tally: Tally,
    now: int,
    *,
    taken: Iterable[str] = (),
    receipts: Mapping[str, str] | None = None,
) -> WorkerRow | None:
    """Add a tally to a worker's row. Returns the row; None if there is none, as for the Lambda runner."""
    if tally.before.count:
        # The first success in the totals resets the stored failures, so read them first.
        failed = mill.workers.add_failures(worker_id, tally.before, now=now)
        if failed:
            series = Failures(failed.failures, frozenset(failed.failing))
            _suspend_after(mill, failed, series, tally.before, now)
    worker = mill.workers.record(worker_id, tally, now=now, taken=taken, receipts=receipts)
    return suspend_after_failures(mill, worker, tally, now) if worker else None


def suspend_after_failures(mill: Mill, worker: WorkerRow, tally: Tally, now: int) -> WorkerRow:
    """Suspend a worker after a tally was added to its row, if its failures require it; return its row."""
    _limit_sets(mill, worker)
    series = Failures(worker.failures, frozenset(worker.failing))
    if tally.longest.count > series.count:
        worker = _suspend_after(mill, worker, tally.longest, tally.longest, now)
    return _suspend_after(mill, worker, series, tally.failures, now)


def record_failure(mill: Mill, worker_id: str, step: StepRow, rank: int, span: int, now: int) -> None:
    """Record a failed attempt that ended without a report from its worker."""
    tally = Tally()
    tally.failure(task_id(step, rank), step.run, span)
    record_totals(mill, worker_id, tally, now)


def _limit_sets(mill: Mill, worker: WorkerRow) -> None:
    """Keep the sets of a worker's row small; of the failing tasks, keep one of each step at least."""
    if len(worker.skip) > _MAX_SKIPS:
        drop = set(sorted(worker.skip)[: _MAX_SKIPS // 2])
        mill.workers.remove_members(worker.id, "skip", drop)
    if len(worker.failing) > MAX_FAILING:
        one_each = {member.rpartition("_")[0]: member for member in sorted(worker.failing)}.values()
        kept = [*one_each, *sorted(worker.failing - set(one_each))][:_KEPT_FAILING]
        mill.workers.remove_members(worker.id, "failing", set(worker.failing) - set(kept))


def _suspend_after(mill: Mill, worker: WorkerRow, series: Failures, added: Failures, now: int) -> WorkerRow:
    """Suspend a worker if a series of failures, the last of which were just added, is its own fault."""
    if worker.tired or not _is_multiple_reached(series.count, added.count):
        return worker
    proven, doubtful = _failures_of_worker(mill, worker.id, _by_step(series.tasks))
    if proven + doubtful < FAILURES_IN_A_ROW:
        return worker
    if proven < FAILURES_IN_A_ROW and not _others_succeed(mill, worker, now):
        return worker
    why = f"suspended after {series.count} failures in a row"
    suspended = mill.workers.suspend_after_failures(worker.id, why)
    if suspended:
        logger.warning(
            "worker suspended after repeated failures; it takes no tasks until it is resumed",
            extra={"action": "suspend-worker", "worker": worker.name, "failures": series.count},
        )
    return suspended or worker


def _is_multiple_reached(count: int, added: int) -> bool:
    """Whether to compare with other workers; because this costs reads, after every fifth failure of a
    series."""
    return count // FAILURES_IN_A_ROW > (count - added) // FAILURES_IN_A_ROW


def _by_step(members: Iterable[str]) -> dict[StepKey, set[int]]:
    """The ranks of failing tasks by step."""
    found: dict[StepKey, set[int]] = {}
    for member in members:
        name, _, run = member.rpartition(".")
        if parsed := parse_task_id(name):
            job_id, index, rank = parsed
            found.setdefault((job_id, int(run), index), set()).add(rank)
    return found


def _failures_of_worker(mill: Mill, worker_id: str, by_step: dict[StepKey, set[int]]) -> tuple[int, int]:
    """Count the tasks that fail only on this worker, and the steps of which none does.

    A task fails only here if another worker completed tasks of the same block, and did not fail this one.
    """
    steps = mill.jobs.steps_by_key(by_step)
    proven = doubtful = 0
    for key, ranks in by_step.items():
        step = steps.get(key)
        known = {rank for rank in ranks if step and rank < step.total}
        blocks = mill.shards.blocks(step, {block_of(rank) for rank in known}) if step and known else {}
        only_here = sum(_fails_only_here(blocks[block_of(rank)], rank, worker_id) for rank in known)
        proven += only_here
        doubtful += not only_here
    return proven, doubtful


def _others_succeed(mill: Mill, worker: WorkerRow, now: int) -> bool:
    """Whether other workers of its groups succeed while this one fails; also true without other workers."""
    live = islice(live_workers(mill, worker.groups, now), _MAX_COMPARED)
    others = [each for each in live if each.id != worker.id]
    since = worker.failing_since or now
    return not others or any(each.succeeded_time > since and not each.failures for each in others)


def _fails_only_here(block: Block, rank: int, worker_id: str) -> bool:
    def is_elsewhere(shard: Shard) -> bool:
        return shard.worker_id not in ("", worker_id)

    task = block[rank]
    if is_elsewhere(task) and task.failures > 1 and task.state is not TaskState.SUCCESS:
        return False
    return any(shard.state is TaskState.SUCCESS and is_elsewhere(shard) for _, shard in block.items())
