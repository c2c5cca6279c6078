"""Kill a Job, a step or a task: the state first, then steps and tasks, then executions; idempotent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.errors import JobEnded, StepEnded, TaskEnded
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import close_step
from shardmill.engine.running.end_tasks import end_before_tasks, end_tasks
from shardmill.engine.running.finish import announce, end_early
from shardmill.engine.tasks import completion, messages, park
from shardmill.model.blocks import Shard, block_of
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.shards import BlockChanged

_ALIVE = tuple(state for state in JobState if not state.ended)
_MAX_CHAIN = 1_000


def kill(mill: Mill, job: JobRow, actor: str, reason: str, now: int, budget: Budget | None = None) -> JobRow:
    """Kill a Job. Its workers stop at their next heartbeat, and their reports are rejected as stale.

    Other calls continue work that exceeds the budget; until then, `event_pending` is set. Repeating the
    call continues it too.
    """
    notes = _notes(actor, reason)
    killed = end_early(mill, job, JobState.KILLED, _ALIVE, notes, now, actor=actor, publish=False)
    present = killed or mill.jobs.get(job.id)
    if not present or present.state is not JobState.KILLED:
        state = present.state if present else JobState.DELETED
        raise _ended(job, state)
    return end_run(mill, present, actor, now, budget or Budget(), publish=killed is not None)


def check_kill(job: JobRow) -> bool:
    """Return whether a kill changes a Job. Raises JobEnded if it has ended otherwise."""
    if job.state.ended and job.state is not JobState.KILLED:
        raise _ended(job, job.state)
    return job.state is not JobState.KILLED


def end_run(mill: Mill, job: JobRow, actor: str, now: int, budget: Budget, *, publish: bool) -> JobRow:
    """End the steps of a Job that was ended, then publish its end or, if the budget is spent, continue soon.

    `publish`: whether this call ended the Job; else the tick publishes the end.
    """
    mill.runs.delete_edges(job)
    if not end_steps(mill, job, actor, now, budget):
        continue_soon(mill, job.id, now)
    elif publish:
        announce(mill, job, now)
        return job.evolve(event_pending=False)
    return job


def is_complete(nodes: Sequence[StepRow]) -> bool:
    """Return whether all rows of a run are there: they are written in several transactions, the end last."""
    return bool(nodes) and nodes[-1].kind == "end" and len(nodes) == nodes[-1].index + 1


def end_steps(mill: Mill, job: JobRow, actor: str, now: int, budget: Budget) -> bool:
    """Kill the steps of a run that has ended, and stop its executions; return whether all is done.

    Planning a rerun completes the end of the run before it. If this run was not planned, that is done here.
    """
    for run in range(job.run, 0, -1):
        nodes = mill.jobs.steps(job.id, run)
        if not _end_nodes(mill, job.evolve(run=run), nodes, actor, now, budget):
            return False
        if is_complete(nodes):
            break
    return True


def _end_nodes(
    mill: Mill, job: JobRow, nodes: Sequence[StepRow], actor: str, now: int, budget: Budget
) -> bool:
    """End the steps of one run as far as the budget allows.

    The rows of the steps come first, those with open tasks before others: then no task can be leased.
    """
    steps = [node for node in nodes if node.kind == "step"]
    ended = [step for step in steps if step.end_interrupted]
    for step in sorted(
        (each for each in steps if not each.state.ended), key=lambda each: not each.in_progress
    ):
        if budget.spent:
            return False
        changes = end_before_tasks(now, "killed with its Job")
        budget.spend()
        killed = mill.jobs.move_step(step, StepState.KILLED, now=now, actor=actor, **changes)
        if killed:
            ended.append(killed)
    for step in ended:
        if budget.spent:
            return False
        stop_execution(mill, step)
        if not end_tasks(mill, step, budget):
            return False
    mill.machines.abort(job.id, job.run)
    return True


def stop_execution(mill: Mill, step: StepRow) -> None:
    """Stop the execution of a step that was ended on request, before the first of its tasks are ended."""
    if step.end_interrupted and not step.end_cursor:
        mill.machines.abort(*step.key)


def finish_step(mill: Mill, job: JobRow, step: StepRow, now: int) -> None:
    """Finish a step that was ended on request: stop its execution, end its tasks, release its dependents."""
    stop_execution(mill, step)
    if not close_step.finish_ended_step(mill, job, step, now, Budget()):
        continue_soon(mill, job.id, now)


def check_kill_step(job: JobRow, step: StepRow) -> bool:
    """Return whether a kill changes a step. Raises JobEnded or StepEnded if it cannot be killed."""
    if job.state.ended:
        raise _ended(job, job.state)
    if step.state is StepState.KILLED or (step.kill and not step.state.ended):
        return False
    if step.state.ended:
        raise StepEnded(f"step {step.name!r} has ended as {step.state}")
    return True


def kill_step(mill: Mill, job: JobRow, step: StepRow, actor: str, reason: str, now: int) -> None:
    """Kill one step. Its dependents are skipped, and the Job fails when the other steps have ended."""
    if not check_kill_step(job, step):
        return
    mill.watches.look_soon(job.id, due=now + RECHECK_MS)
    notes = _notes(actor, reason)
    if step.state is StepState.WAITING:
        changes = end_before_tasks(now, notes) | {"kill": True}  # a rerun may have given it tasks
        killed = mill.jobs.move_step(step, StepState.KILLED, now=now, actor=actor, reason=reason, **changes)
        if killed:
            finish_step(mill, job, killed, now)
            return
    stopped = mill.jobs.stop_step(step, notes=notes, kill=True)
    if stopped:
        if stopped.state is StepState.SUSPENDED:
            park.unpark_step(mill, stopped, now, Budget())
        completion.wake(mill, stopped)
        if not stopped.token:
            messages.request_wake(mill, stopped, now)


def check_kill_task(job: JobRow, step: StepRow) -> None:
    """Raise JobEnded or StepEnded if no task of a step can be killed."""
    if job.state.ended:
        raise _ended(job, job.state)
    if not step.in_progress:
        raise StepEnded(f"step {step.name!r} is {step.state}: none of its tasks can be killed now")


def kill_task(mill: Mill, job: JobRow, step: StepRow, rank: int, actor: str, reason: str, now: int) -> None:
    """Kill one task. Its worker, if it has one, stops at its next heartbeat."""
    check_kill_task(job, step)

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
        if not check_end_task(shard, wanted.state):
            return
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


def check_end_task(shard: Shard, state: TaskState) -> bool:
    """Return whether ending a task in a state changes it. Raises TaskEnded if it ended in another one."""
    if shard.state is state:
        return False
    if shard.state.ended:
        raise TaskEnded(f"the task has ended as {shard.state}")
    return True


def elapsed_ms(shard: Shard, now: int) -> int:
    """Return how long the running attempt of a shard has taken; 0 if none runs."""
    return max(0, now - shard.time) if shard.state is TaskState.RUNNING else 0


def kill_replaced(mill: Mill, job: JobRow, now: int, budget: Budget | None = None) -> None:
    """Kill the Job that this one replaces, and any Jobs that the replaced one had yet to kill."""
    budget = budget or Budget()
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
                reason = f"replaced by {job.job_name}/{job.trigger}"
                kill(mill, previous, job.submit_user, reason, now, budget)
            except JobEnded:
                continue  # it has ended by itself meanwhile
    mill.jobs.clear_replaces(job)


def _notes(actor: str, reason: str) -> str:
    return f"killed by {actor}" + (f": {reason}" if reason else "")


def _ended(job: JobRow, state: JobState) -> JobEnded:
    return JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {state}")
