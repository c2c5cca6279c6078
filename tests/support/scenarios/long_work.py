"""Steps with many touched blocks, and the slices that end, copy or delete their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from shardmill.engine import continuation
from shardmill.engine.running import end_tasks
from shardmill.model.blocks import BLOCK_SIZE, Shard, block_count
from shardmill.model.states import TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.table import Table
from shardmill.store.tasks import keys as task_keys
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner

REQUEST_CALLS, SLICE_CALLS, CHUNK = 20, 60, 10
OVERHEAD = 40
"""The calls of a request or a slice besides the work that grows: reading the Job, its answer, its event."""
RUNNING = Shard(TaskState.RUNNING, attempt=1, worker="w.1", time=1)
DONE = Shard(TaskState.SUCCESS, attempt=1, worker="w.1", time=1, span=2)
FAILED = DONE.evolve(state=TaskState.FAILED)


def set_small_budgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation, "REQUEST_CALLS", REQUEST_CALLS)
    patch.setattr(continuation, "SLICE_CALLS", SLICE_CALLS)
    patch.setattr(end_tasks, "CHUNK", CHUNK)


def open_step(runner: JobRunner, blocks: int, trigger: str = "t1", **settings: Any) -> StepRow:
    """Submit a Job with a step of `blocks` blocks, and wait until its execution waits for its tasks."""
    runner.define({"stepName": "big", "sharding": blocks * BLOCK_SIZE, "maxTaskCount": 1, **settings})
    runner.submit(trigger)
    runner.cloud.run_until(lambda: runner.row(0, trigger).token, 30)
    return runner.row(0, trigger)


def write_blocks(runner: JobRunner, step: StepRow, numbers: range, shards: Mapping[int, Shard]) -> None:
    """Write the same shards into blocks of a step, as leases and reports leave them."""
    values = {str(rank): shard.encode() for rank, shard in shards.items()}
    items = [{**task_keys.block(*step.key, number), **values} for number in numbers]
    Table(runner.cloud.clients.dynamodb, runner.cloud.table).batch_put(items)


def lease_in_each_block(runner: JobRunner, step: StepRow) -> None:
    """Leave one succeeded and one leased task in each block."""
    write_blocks(runner, step, range(block_count(step.total)), {0: DONE, 1: RUNNING})


def task_states(runner: JobRunner, step: StepRow) -> Counter[TaskState]:
    """The states in the rows of a step's blocks; tasks without a value are left out."""
    blocks = runner.mill.shards.blocks(step, range(block_count(step.total))).values()
    return Counter(shard.state for block in blocks for shard in block.shards.values())


def job_row(runner: JobRunner, trigger: str = "t1") -> JobRow:
    job = runner.mill.jobs.find("orders", trigger)
    assert job is not None
    return job


def calls_of(faults: Faults) -> int:
    """The AWS calls since the last question."""
    calls = faults.meter.total_calls
    faults.meter.reset()
    return calls


def slices(runner: JobRunner, faults: Faults) -> list[int]:
    """Deliver the events that continue Jobs until there is none; return the calls of each slice.

    Several events may have been published; the calls of slices that are delivered together are averaged.
    """
    found: list[int] = []
    calls_of(faults)
    while delivered := runner.cloud.deliver_due_jobs():
        found.append(calls_of(faults) // len(delivered))
    return found


@contextmanager
def at_call(faults: Faults, nth: int, action: Callable[[], object]) -> Iterator[None]:
    """Run an action before the nth call of a block of code; calls of the action itself do not count."""
    seen = 0

    def interrupt(call: Call, make: Callable[[Call], dict[str, Any]]) -> dict[str, Any]:
        nonlocal seen
        seen += 1
        if seen == nth:
            action()
        return make(call)

    faults.add_rule(interrupt)
    yield
    seen = nth + 1
