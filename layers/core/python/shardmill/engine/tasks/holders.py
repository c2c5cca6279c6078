"""Find which leases are live, and remove lost tasks from the workers that held them."""

from __future__ import annotations

from collections.abc import Mapping

from shardmill.engine.mill import Mill
from shardmill.engine.task_id import task_id
from shardmill.model.blocks import Shard
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.workers import Tally


def live(mill: Mill, step: StepRow, known: Mapping[int, Shard], now: int, lease_ms: int) -> set[int]:
    """The shards with an unexpired lease, or whose worker sent a recent heartbeat that lists them."""
    running = {rank: shard for rank, shard in known.items() if shard.state is TaskState.RUNNING}
    alive = {rank for rank, shard in running.items() if shard.time + lease_ms > now}
    older = {rank: shard for rank, shard in running.items() if rank not in alive}
    if older:
        holders = mill.workers.by_id({shard.worker_id for shard in older.values()})
        for rank, shard in older.items():
            holder = holders.get(shard.worker_id)
            if holder and holder.reference == shard.worker and holder.seen + lease_ms > now:
                if task_id(step, rank) in holder.work:
                    alive.add(rank)
    return alive


def drop_lost(mill: Mill, step: StepRow, lost: Mapping[int, Shard], now: int) -> None:
    """Remove lost tasks from the rows of the workers that held them."""
    by_worker: dict[str, set[str]] = {}
    for rank, shard in lost.items():
        by_worker.setdefault(shard.worker_id, set()).add(task_id(step, rank))
    for worker_id, tasks in by_worker.items():
        mill.workers.record(worker_id, Tally(done=tasks), now=now)
