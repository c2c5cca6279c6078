"""End the tasks of a step that has ended before them: kill open tasks, and count how all of them ended.

The step's row is written first, with the mark `ending`; then its blocks are handled in order. The row keeps a
cursor, so that a further call continues after the blocks that are done. Storing the counts comes last and
removes the mark, by which the tick finds what a crash left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import Budget
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import fair_share, window
from shardmill.model.blocks import Block, block_count
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged

CHUNK = 100
"""The blocks that are read together, and after which the cursor is stored."""
_CALLS_PER_CHUNK = 4


def end_before_tasks(now: int, notes: str) -> dict[str, Any]:
    """Return the changes of a step's row that end the step before its tasks.

    Its set of open blocks goes with the same write: an execution that starts later finds nothing to wait for.
    """
    return {
        "stopping": True,
        "ending": True,
        "open": None,
        "token": None,
        "completed_time": now,
        "notes": notes,
    }


@dataclass(frozen=True, slots=True)
class _Cursor:
    """How many blocks are done, and how many of their tasks succeeded and failed."""

    blocks: int = 0
    success: int = 0
    failed: int = 0

    @classmethod
    def of(cls, step: StepRow) -> _Cursor:
        return cls(*map(int, step.end_cursor.split("/"))) if step.end_cursor else cls()

    def after(self, blocks: int, ends: Counter[TaskState]) -> _Cursor:
        return _Cursor(blocks, self.success + ends[TaskState.SUCCESS], self.failed + ends[TaskState.FAILED])

    def encode(self) -> str:
        return f"{self.blocks}/{self.success}/{self.failed}"


def end_tasks(mill: Mill, step: StepRow, budget: Budget) -> bool:
    """Kill the open tasks of a step as far as the budget allows; return whether all of its tasks have ended.

    Idempotent, and harmless if another call does the same: the cursor only moves on from where it was read.
    """
    present: StepRow | None = step
    while present and present.end_interrupted:
        if budget.spent:
            return False
        present = _end_chunk(mill, present, budget)
    return True


def _end_chunk(mill: Mill, step: StepRow, budget: Budget) -> StepRow | None:
    """End the tasks of the next blocks and store the progress; return the step as it is then."""
    cursor, count = _Cursor.of(step), block_count(step.total)
    numbers = range(cursor.blocks, min(cursor.blocks + CHUNK, count))
    ends = _end_blocks(mill, step, numbers, budget)
    budget.spend(_CALLS_PER_CHUNK)
    reached = cursor.after(numbers.stop, ends)
    if reached.blocks < count:
        return mill.jobs.note_end_progress(step, reached.encode())
    fair_share.leave(mill, step)
    success, failed = reached.success, reached.failed
    return mill.jobs.set_counts(step, success=success, failed=failed, killed=step.total - success - failed)


def _end_blocks(mill: Mill, step: StepRow, numbers: range, budget: Budget) -> Counter[TaskState]:
    """Kill the shards that are leased or can be by a message already sent; return how they ended."""
    before = window.blocks_before(step, numbers)
    blocks = mill.shards.blocks(step, [*before, *numbers])
    touched = {number for number in before if blocks[number].shards}
    ends: Counter[TaskState] = Counter()
    for number in numbers:
        block = blocks[number]
        if _may_be_leased(step, block, touched):
            block = _end_block(mill, step, block)
            budget.spend()
        if block.shards:
            touched.add(number)
        ends.update(block.counts())
    return ends


def _may_be_leased(step: StepRow, block: Block, touched: Collection[int]) -> bool:
    if block.finished:
        return False
    return bool(block.shards) or window.possibly_sent(step, block.number, touched)


def _end_block(mill: Mill, step: StepRow, block: Block) -> Block:
    attempts = Attempts(f"block {block.number} of step {step.name!r}")
    while True:
        attempts.begin()
        alive = {rank: shard for rank, shard in block.items() if shard.attempt and not shard.state.ended}
        killed = {rank: shard.evolve(state=TaskState.KILLED) for rank, shard in alive.items()}
        try:
            block = mill.shards.sweep(step, block, killed)
        except BlockChanged as changed:
            block = changed.block
        if block.swept and block.finished:  # else a shard was leased between the read and the sweep
            return block
