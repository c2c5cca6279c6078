"""Force a Job, a step or a task to a final state, and release its dependents."""

from __future__ import annotations

from shardmill.engine.continuation import Budget
from shardmill.engine.errors import JobEnded, StepEnded
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import kill
from shardmill.engine.running.end_tasks import end_before_tasks
from shardmill.engine.running.finish import end_early
from shardmill.engine.tasks.retry import Rules
from shardmill.model.actor import Actor
from shardmill.model.blocks import Shard
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow


def _notes(state: str, actor: Actor, reason: str) -> str:
    return f"forced to {state} by {actor.name}" + (f": {reason}" if reason else "")


def force_job(mill: Mill, job: JobRow, state: JobState, actor: Actor, reason: str, now: int) -> JobRow:
    """Set the final state of a Job, even if it has ended in another one."""
    sources = tuple(each for each in JobState if each not in (state, JobState.DELETED))
    forced = end_early(
        mill, job, state, sources, _notes(state, actor, reason), now, actor=actor.name, publish=False
    )
    present = forced or mill.jobs.get(job.id)
    if not present or present.state is not state:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} is {present.state if present else 'gone'}")
    return kill.end_run(mill, present, actor.name, now, Budget(), publish=forced is not None)


def check_force_step(job: JobRow, step: StepRow, state: StepState) -> bool:
    """Return whether forcing a step changes it. Raises JobEnded or StepEnded if it cannot be forced."""
    if job.state.ended:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {job.state}; force or rerun it")
    if step.state.ended and step.state is not state:
        raise StepEnded(f"step {step.name!r} has ended as {step.state}")
    return step.state is not state


def force_step(
    mill: Mill, job: JobRow, step: StepRow, state: StepState, actor: Actor, reason: str, now: int
) -> None:
    """End a step of a Job that has not ended: its open tasks are killed, its dependents released."""
    check_force_step(job, step, state)
    notes = _notes(state, actor, reason)
    mill.watches.look_soon(job.id, due=now + RECHECK_MS)
    changes = end_before_tasks(now, notes)
    forced = mill.jobs.move_step(step, state, now=now, actor=actor.name, reason=notes, **changes)
    present = forced or mill.jobs.step(*step.key) or step
    if present.state is not state:
        raise StepEnded(f"step {step.name!r} has ended as {present.state}")
    kill.finish_step(mill, job, present, now)


def check_force_task(job: JobRow, step: StepRow) -> None:
    """Raise StepEnded if no task of a step can be forced."""
    if job.state.ended or not step.in_progress:
        raise StepEnded(f"step {step.name!r} is {step.state}: its tasks cannot be forced now")


def force_task(
    mill: Mill, job: JobRow, step: StepRow, rank: int, state: TaskState, actor: Actor, reason: str, now: int
) -> None:
    """End a task of a running step. Its worker, if it has one, stops at its next heartbeat."""
    check_force_task(job, step)

    def forced(shard: Shard) -> Shard:
        running = shard.state is TaskState.RUNNING
        if running:
            return shard.evolve(state=state, span=kill.elapsed_ms(shard, now))
        attempt = Rules.of(step).next_attempt(shard)
        return shard.evolve(state=state, attempt=attempt, time=now, leased=0, ended=0)

    kill.end_task(mill, step, rank, forced, "forced", _notes(state, actor, reason), now)
