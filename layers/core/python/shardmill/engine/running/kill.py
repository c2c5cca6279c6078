"""Kill a Job, a step or a task: the state first, then steps and tasks, then executions; idempotent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import JobEnded, StepEnded, TaskEnded
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import close_step
from shardmill.engine.running.finish import announce, end_early
from shardmill.engine.tasks import completion, fair_share, park, window
from shardmill.model.blocks import Block, Shard, block_of
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.shards import BlockChanged

_ALIVE = tuple(state for state in JobState if not state.ended)
_MAX_CHAIN = 1_000


def kill(mill: Mill, job: JobRow, actor: str, reason: str, now: int) -> JobRow:
    """Kill a Job. Its workers stop at their next heartbeat, and their reports are rejected as stale.

    Repeating the call completes a kill that a crash interrupted.
    """
    notes = _notes(actor, reason)
    killed = end_early(mill, job, JobState.KILLED, _ALIVE, notes, now, actor=actor, publish=False)
    present = killed or mill.jobs.get(job.id)
    if not present or present.state is not JobState.KILLED:
        state = present.state if present else JobState.DELETED
        raise _ended(job, state)
    mill.runs.delete_edges(present)
    end_steps(mill, present, actor, now)
    if killed:
        announce(mill, killed, now)
    return present


def end_steps(mill: Mill, job: JobRow, actor: str, now: int) -> None:
    """Kill every step of a run that has ended, and stop its executions."""
    for step in mill.jobs.steps(job.id, job.run):
        if step.kind == "step" and (
            not step.state.ended or step.state is StepState.KILLED or step.end_interrupted
        ):
            _kill_with_job(mill, step, actor, now)
    mill.machines.abort(job.id, job.run)


def _kill_with_job(mill: Mill, step: StepRow, actor: str, now: int) -> None:
    if not step.state.ended:
        notes = "killed with its Job"
        changes: dict[str, Any] = {"stopping": True, "ending": True, "completed_time": now, "notes": notes}
        step = mill.jobs.move_step(step, StepState.KILLED, now=now, actor=actor, **changes) or step
    end_tasks(mill, step)


def kill_step(mill: Mill, job: JobRow, step: StepRow, actor: str, reason: str, now: int) -> None:
    """Kill one step. Its dependents are skipped, and the Job fails when the other steps have ended."""
    if job.state.ended:
        raise _ended(job, job.state)
    if step.state is StepState.KILLED or (step.kill and not step.state.ended):
        return
    if step.state.ended:
        raise StepEnded(f"step {step.name!r} has ended as {step.state}")
    mill.watches.look_soon(job.id, due=now + RECHECK_MS)
    notes = _notes(actor, reason)
    if step.state is StepState.WAITING:
        changes: dict[str, Any] = {"completed_time": now, "notes": notes, "kill": True, "stopping": True}
        killed = mill.jobs.move_step(step, StepState.KILLED, now=now, actor=actor, reason=reason, **changes)
        if killed:
            close_step.finish_step(mill, job, killed, now)
            return
    stopped = mill.jobs.stop_step(step, notes=notes, kill=True)
    if stopped:
        if stopped.state is StepState.SUSPENDED:
            park.unpark_step(mill, stopped, now)
        completion.wake(mill, stopped)


def kill_task(mill: Mill, job: JobRow, step: StepRow, rank: int, actor: str, reason: str, now: int) -> None:
    """Kill one task. Its worker, if it has one, stops at its next heartbeat."""
    if job.state.ended:
        raise _ended(job, job.state)
    if not step.in_progress:
        raise StepEnded(f"step {step.name!r} is {step.state}: none of its tasks can be killed now")

    def killed(shard: Shard) -> Shard:
        return shard.evolve(state=TaskState.KILLED, span=elapsed_ms(shard, now))

    end_task(mill, step, rank, killed, "killed", _notes(actor, reason), now)


def end_task(
    mill: Mill,
    step: StepRow,
    rank: int,
    ended: Callable[[Shard], Shard],
    reason: str,
    message: str,
    now: int,
) -> None:
    """End a task on request, storing the reason first. Raises TaskEnded if it ended in another state."""
    number = block_of(rank)
    attempts = Attempts("the task")
    while True:
        attempts.begin()
        shard = mill.shards.blocks(step, [number])[number][rank]
        wanted = ended(shard)
        if shard.state is wanted.state:
            return
        if shard.state.ended:
            raise TaskEnded(f"the task has ended as {shard.state}")
        if wanted.attempt:
            entry = {"attempt": wanted.attempt, "worker": shard.worker_id, "reason": reason}
            entry |= {"message": message, "startTime": shard.time, "endTime": now}
            mill.shards.put_attempts([(step, rank, entry)])
        try:
            known = {rank: shard if shard.attempt else None}
            block = mill.shards.change(step, number, known, {rank: wanted})
        except BlockChanged:
            continue
        completion.after_end(mill, step, block)
        completion.send_next(mill, step, [rank], now, repeated=True)  # it may not have been enqueued yet
        return


def elapsed_ms(shard: Shard, now: int) -> int:
    """Return how long the running attempt of a shard has taken; 0 if none runs."""
    return max(0, now - shard.time) if shard.state is TaskState.RUNNING else 0


def end_tasks(mill: Mill, step: StepRow) -> None:
    """Kill the open tasks and stop the execution of a step that was ended on request.

    Storing the counts comes last: it removes the mark `ending`, by which the tick finds what a crash left.
    """
    if step.total:
        ends = _end_shards(mill, step)
        mill.machines.abort(step.job_id, step.run, step.index)
        fair_share.leave(mill, step)
        success, failed = ends[TaskState.SUCCESS], ends[TaskState.FAILED]
        mill.jobs.set_counts(step, success=success, failed=failed, killed=step.total - success - failed)


def _end_shards(mill: Mill, step: StepRow) -> Counter[TaskState]:
    """Kill the shards that are leased or can be by a message already sent; return how they ended."""
    untouched: dict[int, Block] = {}
    ends: Counter[TaskState] = Counter()
    for block in mill.shards.all_blocks(step):
        if block.shards:
            ends.update(_end_block(mill, step, block).counts())
        elif not block.swept:
            untouched[block.number] = block
    for number in window.possibly_sent(step, untouched):
        ends.update(_end_block(mill, step, untouched[number]).counts())
    return ends


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


def kill_replaced(mill: Mill, job: JobRow, now: int) -> None:
    """Kill the Job that this one replaces, and those that that Job had not replaced yet."""
    chain: list[JobRow] = []
    job_id = job.replaces
    while job_id and len(chain) < _MAX_CHAIN:
        previous = mill.jobs.get(job_id)
        if not previous:
            break
        chain.append(previous)
        job_id = previous.replaces
    for previous in reversed(chain):
        if not previous.state.ended or previous.state is JobState.KILLED:
            try:
                kill(mill, previous, job.submit_user, f"replaced by {job.job_name}/{job.trigger}", now)
            except JobEnded:
                continue  # it has ended by itself meanwhile
    mill.jobs.clear_replaces(job)


def _notes(actor: str, reason: str) -> str:
    return f"killed by {actor}" + (f": {reason}" if reason else "")


def _ended(job: JobRow, state: JobState) -> JobEnded:
    return JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {state}")
