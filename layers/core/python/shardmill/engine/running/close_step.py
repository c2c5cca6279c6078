"""Close a step: sweep its open tasks if it must stop, decide its final state, release its dependents."""

from __future__ import annotations

from typing import Any

from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.mill import Mill
from shardmill.engine.running.end_tasks import end_before_tasks, end_tasks
from shardmill.engine.running.finish import announce_step
from shardmill.engine.running.release import Start, release_dependents
from shardmill.engine.task_id import task_id, task_name
from shardmill.engine.tasks import completion, fair_share
from shardmill.engine.tasks.attempts import list_attempts
from shardmill.engine.tasks.retry import too_many_failures
from shardmill.model.blocks import Block, blocks_of_set
from shardmill.model.errors import Transient
from shardmill.model.states import StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.shards import BlockChanged

_SWEEP_TRIES = 6


class StepLost(Exception):
    """The step of an execution has no row."""


class StillOpen(Transient):
    """The step has open blocks or is being modified concurrently; retry."""


def close_step(
    mill: Mill, job_id: str, run: int, index: int, now: int, start: Start | None = None
) -> StepState:
    """Set the final state of a step whose tasks have all ended, and release its dependents."""
    job, step = job_and_step(mill, job_id, run, index)
    if step.in_progress:
        if step.open:
            raise StillOpen(f"step {step.name} has open blocks")
        state, changes = _final_state(mill, step)
        closed = mill.jobs.move_step(step, state, now=now, completed_time=now, token=None, **changes)
        step = closed or step_row(mill, job_id, run, index)
    finish_step(mill, job, step, now, start)
    return step.state


def finish_step(mill: Mill, job: JobRow, step: StepRow, now: int, start: Start | None = None) -> None:
    """Publish the end of a step and release its dependents; idempotent. `start`: see release_dependents."""
    fair_share.leave(mill, step)
    if job.run == step.run and not job.state.ended:
        announce_step(mill, job, step)
    release_dependents(mill, job, step, now, start)


def finish_ended_step(mill: Mill, job: JobRow, step: StepRow, now: int, budget: Budget) -> bool:
    """End the tasks of a step that has ended before them, then finish it; False if the budget is spent."""
    if not end_tasks(mill, step, budget):
        return False
    present = mill.jobs.step(*step.key) if step.end_interrupted else step  # with the counts of its tasks
    finish_step(mill, job, present or step, now)
    return True


def sweep_set(mill: Mill, job_id: str, run: int, index: int, set_number: int) -> int:
    """Kill the tasks of one set of blocks that no worker holds; return the number of open blocks."""
    step = step_row(mill, job_id, run, index)
    blocks = _open_blocks(mill, step, set_number)
    for block in blocks:
        swept = _sweep_block(mill, step, block)
        if swept.finished:
            completion.close_block(mill, step, swept)
    if not blocks:
        completion.close_empty_sets(mill, step, [str(set_number)])
    return len(blocks)


def _open_blocks(mill: Mill, step: StepRow, set_number: int) -> list[Block]:
    if step.two_levels:
        members = mill.shards.open_blocks_of_set(step, set_number)
    else:
        members = {int(member) for member in step.open}
    wanted = members.intersection(blocks_of_set(step.total, set_number))
    return list(mill.shards.blocks(step, sorted(wanted)).values())


def _sweep_block(mill: Mill, step: StepRow, block: Block) -> Block:
    for _ in range(_SWEEP_TRIES):
        waiting = {
            rank: shard
            for rank, shard in block.items()
            if shard.attempt and shard.state in (TaskState.READY, TaskState.SUSPENDED)
        }
        killed = {rank: shard.evolve(state=TaskState.KILLED) for rank, shard in waiting.items()}
        try:
            return mill.shards.sweep(step, block, killed)
        except BlockChanged as changed:
            block = changed.block
    raise StillOpen(f"block {block.number} of step {step.name} is being modified concurrently")


def _final_state(mill: Mill, step: StepRow) -> tuple[StepState, dict[str, Any]]:
    if not too_many_failures(step.settings.tolerated_failures, step.failed, step.total) and not step.killed:
        return StepState.SUCCESS, {}
    rank, reason = _first_failure(mill, step)
    notes = f"{step.failed} of {step.total} tasks failed"
    if step.killed:
        notes += f", {step.killed} were stopped"
    if rank is not None:
        notes += f"; the first was {task_name(step, rank)}" + (f": {reason}" if reason else "")
    state = StepState.TOLERATED if step.settings.can_fail else StepState.FAILED
    if step.kill:
        state, notes = StepState.KILLED, f"{step.notes}; {notes}"
    return state, {"notes": notes, "last_failed": None if rank is None else task_id(step, rank)}


def _first_failure(mill: Mill, step: StepRow) -> tuple[int | None, str]:
    """Return the rank of the first task that failed, and why."""
    for block in mill.shards.all_blocks(step):
        for rank, shard in block.items():
            if shard.state is TaskState.FAILED:
                attempts = list_attempts(mill, step, rank)
                last = attempts[-1] if attempts else {}
                reason = last.get("message") or last.get("reason", "")
                return rank, reason
    return None, ""


def end_without_execution(mill: Mill, job_id: str, run: int, index: int, cause: str, now: int) -> None:
    """End a step whose execution ended before it: close it if its tasks have all ended, else fail it."""
    step = step_row(mill, job_id, run, index)
    if step.in_progress and not step.open:
        close_step(mill, job_id, run, index, now)
    else:
        fail_step(mill, job_id, run, index, cause, now)


def fail_step(mill: Mill, job_id: str, run: int, index: int, cause: str, now: int) -> None:
    """Fail a step whose execution failed, kill its open tasks, and release its dependents."""
    job, step = job_and_step(mill, job_id, run, index)
    if not step.state.ended:
        notes = f"the step failed: {cause}"[:1000]
        changes = end_before_tasks(now, notes)
        state = StepState.TOLERATED if step.settings.can_fail else StepState.FAILED
        step = mill.jobs.move_step(step, state, now=now, **changes) or step_row(mill, job_id, run, index)
    if not finish_ended_step(mill, job, step, now, Budget()):
        continue_soon(mill, job_id, now)


def job_and_step(mill: Mill, job_id: str, run: int, index: int) -> tuple[JobRow, StepRow]:
    rows = mill.jobs.with_step(job_id, run, index)
    if not rows:
        raise StepLost(f"job {job_id}, run {run}, step {index}")
    return rows


def step_row(mill: Mill, job_id: str, run: int, index: int) -> StepRow:
    step = mill.jobs.step(job_id, run, index)
    if not step:
        raise StepLost(f"job {job_id}, run {run}, step {index}")
    return step
