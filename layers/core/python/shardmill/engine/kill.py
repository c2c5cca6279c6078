"""Killing a Job: its state first, then its steps and tasks, then its executions; all may be repeated."""

from __future__ import annotations

from shardmill.engine import share
from shardmill.engine.errors import JobEnded
from shardmill.engine.finish import cut_short
from shardmill.engine.mill import Mill
from shardmill.model.blocks import Block
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.shards import BlockChanged

_ALIVE = tuple(state for state in JobState if not state.ended)
_TRIES = 6


def kill(mill: Mill, job: JobRow, notes: str, now: int) -> JobRow:
    """End a Job here and now; workers hear of it with their next heartbeat, and report too late."""
    killed = cut_short(mill, job, JobState.KILLED, _ALIVE, notes, now)
    present = killed or mill.jobs.get(job.id)
    if not present or present.state is not JobState.KILLED:
        state = present.state if present else JobState.DELETED
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {state}")
    mill.runs.forget_edges(present)
    for step in mill.jobs.steps(present.id, present.run):
        if step.kind == "step" and (not step.state.ended or step.state is StepState.KILLED):
            _kill_step(mill, step, now)
    mill.machines.abort(present.id, present.run)
    return present


def _kill_step(mill: Mill, step: StepRow, now: int) -> None:
    begun = step.total > 0
    if not step.state.ended:
        changes = {"stopping": True, "completed_time": now, "notes": "killed with its Job"}
        step = mill.jobs.move_step(step, StepState.KILLED, now=now, **changes) or step
    if begun:
        _end_tasks(mill, step)
        mill.machines.abort(step.job_id, step.run, step.index)
        share.leave(mill, step)


def _end_tasks(mill: Mill, step: StepRow) -> None:
    """End what is leased or to be tried again, and count; of what nobody touched, the step's end tells."""
    success = failed = 0
    for block in mill.shards.all_blocks(step):
        ended = _end_block(mill, step, block) if block.shards else block
        counts = ended.counts()
        success += counts[TaskState.SUCCESS]
        failed += counts[TaskState.FAILED]
    mill.jobs.set_counts(step, success=success, failed=failed, killed=step.total - success - failed)


def _end_block(mill: Mill, step: StepRow, block: Block) -> Block:
    for _ in range(_TRIES):
        alive = {rank: shard for rank, shard in block.items() if shard.attempt and not shard.state.ended}
        killed = {rank: shard.evolve(state=TaskState.KILLED) for rank, shard in alive.items()}
        try:
            return mill.shards.sweep(step, block, killed)
        except BlockChanged as changed:
            block = changed.block
    raise BlockChanged(block)


def replace(mill: Mill, job: JobRow, now: int) -> None:
    """A Job takes the place of another, which is killed if it still runs."""
    previous = mill.jobs.get(job.replaces)
    if not previous or (previous.state.ended and previous.state is not JobState.KILLED):
        return
    try:
        kill(mill, previous, f"replaced by {job.job_name}/{job.trigger}", now)
    except JobEnded:
        return  # it came to its own end just now
