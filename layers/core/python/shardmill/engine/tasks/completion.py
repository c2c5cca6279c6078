"""Handle ended tasks: close blocks, return the step's task token, send the next tasks.

Every part is idempotent: after a crash, the message of an ended task reappears and the part runs again.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.engine.mill import Mill
from shardmill.engine.tasks import messages, window
from shardmill.engine.tasks.retry import too_many_failures
from shardmill.model.blocks import Block, set_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow


def after_end(mill: Mill, step: StepRow, block: Block) -> None:
    """Apply failFast after tasks of a block ended, and close the block if all its tasks have ended."""
    counts = block.counts()
    if counts[TaskState.FAILED] and step.settings.fail_fast:
        _count_failures(mill, step, block.number, counts[TaskState.FAILED])
    if block.finished:
        close_block(mill, step, block)


def close_block(mill: Mill, step: StepRow, block: Block) -> None:
    states = block.counts()
    counts = {
        "success": states[TaskState.SUCCESS],
        "failed": states[TaskState.FAILED],
        "killed": states[TaskState.KILLED],
        "compute_ms": block.compute_ms(),
    }
    member = block.number
    if step.two_levels:
        empty, counts = mill.shards.close_in_set(step, member, counts)
        if not empty:
            return
        member = set_of(member)
    wake(mill, mill.jobs.close_block(step, str(member), counts, active=block.last_end()))


def close_empty_sets(mill: Mill, step: StepRow, numbers: Iterable[str]) -> StepRow:
    """Close the open sets of a large step that have no open block; return the step.

    A crash may have come between the removal of a set's last block and that of the set. Its message repeats
    both, unless a new generation made the message void.
    """
    if step.two_levels:
        for number, part in mill.shards.sets(step, map(int, step.open & set(numbers))).items():
            if not part.open:
                step = mill.jobs.close_block(step, str(number), part.counts, active=step.active_time)
    return step


def wake(mill: Mill, step: StepRow) -> None:
    """Return the task token of a step without open blocks, or of a stopping step that was not swept yet."""
    if not step.token or not step.in_progress:
        return
    if not step.open:
        mill.machines.return_token(step.token)
    elif step.stopping and not step.swept:
        mill.machines.stop(step.token)


def _count_failures(mill: Mill, step: StepRow, block: int, failures: int) -> None:
    if step.two_levels:
        failures = mill.shards.count_failures_in_set(step, block, failures)
        block = set_of(block)
    counted = mill.jobs.count_failures(step, str(block), failures)
    total = sum(counted.failed_blocks.values())
    if not counted.stopping:
        if not too_many_failures(step.settings.tolerated_failures, total, step.total):
            return
        notes = f"stopped by failFast after {total} failed tasks"
        counted = mill.jobs.stop_step(counted, notes=notes) or counted
    wake(mill, counted)


def send_next(mill: Mill, step: StepRow, ranks: Iterable[int], now: int, *, repeated: bool) -> None:
    """Send the tasks that enter the window after tasks ended.

    Reads rows if `repeated` or if the window was changed, because tasks may have ended out of order.
    """
    if repeated or step.uneven:
        following = window.next_after(mill, step, ranks)
    else:
        following = [rank for ended in ranks if (rank := window.next_in_line(step, ended)) is not None]
    messages.send_if_possible(mill, step, following, now)
