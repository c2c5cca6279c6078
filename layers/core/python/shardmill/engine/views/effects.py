"""Dry runs: the effect of a control action on a Job, found by the action's own checks; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardmill.engine.control import change, dependents, force, rerun, start_waiting, suspend
from shardmill.engine.jobs import unique
from shardmill.engine.jobs.carry_over import ALL_TASKS, FAILED_TASKS, last_planned
from shardmill.engine.jobs.run_nodes import run_nodes
from shardmill.engine.mill import Mill
from shardmill.engine.running import kill
from shardmill.engine.running.changes import Changes
from shardmill.engine.views.jobs import counts, task_count
from shardmill.model.blocks import block_of
from shardmill.model.control.effect import Effect
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow

_NAMED = 5
_NOT_STARTED = (TaskState.WAITING, TaskState.READY, TaskState.SUSPENDED)


def suspension(mill: Mill, job: JobRow, *, let_finish: bool) -> Effect:
    if not suspend.check_suspend(job):
        return _unchanged(job, f"{_name(job)} is suspended already.")
    found = _counts(mill, job)
    running, left = found[TaskState.RUNNING], _not_started(found)
    stop = "will finish" if let_finish else "will be stopped, and start again after the resume"
    return _effect(
        job,
        [
            f"No further task of {_name(job)} starts until it is resumed.",
            running and f"{_plural(running, 'running task')} {stop}.",
            left and f"{_plural(left, 'task')} that {_is(left, 'has', 'have')} not started will wait.",
        ],
        becomes=JobState.SUSPENDED,
        tasks_stopped=0 if let_finish else running,
    )


def resumption(mill: Mill, job: JobRow, now: int) -> Effect:
    if not suspend.check_resume(job):
        return _unchanged(job, f"{_name(job)} is not suspended: it is {job.state}.")
    if not job.parked:  # it failed with `onFailure: suspend`
        return new_run(mill, job, rerun.Scope(), {}, now)
    state = suspend.state_after_resume(job, mill.jobs.steps(job.id, job.run))
    left = _not_started(_counts(mill, job))
    return _effect(
        job,
        [
            f"{_name(job)} continues as {state}, where it was suspended.",
            left and f"{_plural(left, 'task')} will run.",
        ],
        becomes=state,
        tasks_to_run=left,
    )


def early_start(job: JobRow) -> Effect:
    if not start_waiting.check_start(job):
        return _unchanged(job, f"{_name(job)} does not wait for other jobs: it is {job.state}.")
    text = f"{_name(job)} starts now, without the jobs that it waits for."
    return _effect(job, [text, job.notes and f"Now: {job.notes}."])


def killing(mill: Mill, job: JobRow) -> Effect:
    if not kill.check_kill(job):
        return _unchanged(job, f"{_name(job)} is killed already.")
    return _ending(mill, job, JobState.KILLED, [f"{_name(job)} ends as KILLED."])


def step_killing(mill: Mill, job: JobRow, step: StepRow) -> Effect:
    if not kill.check_kill_step(job, step):
        return _unchanged(job, f"Step {step.name} is killed already, or being killed.")
    return _step_end(mill, job, step, StepState.KILLED, "Steps that depend on it are skipped.")


def task_killing(mill: Mill, job: JobRow, step: StepRow, rank: int, index: int) -> Effect:
    kill.check_kill_task(job, step)
    return _task_end(mill, job, step, rank, index, TaskState.KILLED)


def forcing(mill: Mill, job: JobRow, state: JobState) -> Effect:
    if job.state is state:
        return _unchanged(job, f"{_name(job)} is {state} already.")
    before = f" instead of {job.state}" if job.state.ended else ""
    first = f"{_name(job)} ends as {state}{before}, without running its remaining tasks."
    last = "Jobs that wait for its success continue." if state is JobState.SUCCESS else ""
    return _ending(mill, job, state, [first], last)


def step_forcing(mill: Mill, job: JobRow, step: StepRow, state: StepState) -> Effect:
    if not force.check_force_step(job, step, state):
        return _unchanged(job, f"Step {step.name} is {state} already.")
    success = state is StepState.SUCCESS
    last = "Steps that depend on it continue." if success else "Steps that depend on it are skipped."
    return _step_end(mill, job, step, state, last)


def task_forcing(mill: Mill, job: JobRow, step: StepRow, rank: int, index: int, state: TaskState) -> Effect:
    force.check_force_task(job, step)
    return _task_end(mill, job, step, rank, index, state)


def new_run(
    mill: Mill,
    job: JobRow,
    scope: rerun.Scope,
    params: Mapping[str, Any],
    now: int,
    *,
    with_dependents: bool = False,
) -> Effect:
    """The tasks that a rerun would run again and keep, in the Job and in its dependents."""
    following = dependents.check_dependents(mill, job) if with_dependents else []
    scope = dependents.scope_with_dependents(job, scope) if with_dependents else scope
    redo, _ = rerun.check_rerun(mill, job, scope, params, now)
    if job.unique:
        unique.claim(mill, job)
    _, planned = last_planned(mill, job.id, job.run)
    nodes = [node for node in planned.values() if node.kind == "step"]
    found = counts(mill, nodes)
    again = [node for node in nodes if str(node.index) in redo]
    tasks = sum(_tasks_again(node, redo[str(node.index)], found[node.index]) for node in again)
    kept = sum(found[node.index].get(TaskState.SUCCESS, 0) for node in nodes)
    kept -= sum(_repeated(mill, node, redo[str(node.index)], found[node.index]) for node in again)
    known = all(task_count(node) for node in again)
    running = sum(each.get(TaskState.RUNNING, 0) for each in found.values())
    names = [f"{each.job_name}/{each.trigger}" for each in following]
    return _effect(
        job,
        [
            f"Run {job.run + 1} of {_name(job)} starts, with version {job.version} of its definition.",
            params and f"{_names(sorted(params))} {_is(len(params), 'gets a new value', 'get new values')}.",
            job.parked and "The suspended run ends.",
            running and f"{_plural(running, 'running task')} will be stopped.",
            not nodes and "None of its steps has run yet: all of them will.",
            again and _runs_again(tasks, [node.name for node in again], known),
            kept and f"{_plural(kept, 'task')} that succeeded will keep {_is(kept, 'its', 'their')} result.",
            names and f"Then jobs that depend on it run again, each after its parents: {_names(names)}.",
            with_dependents and not names and "No job of the same data time depends on it.",
        ],
        becomes=JobState.WAITING if job.unmet else JobState.INIT,
        run=job.run + 1,
        tasks_stopped=running,
        tasks_to_run=tasks,
        tasks_kept=kept,
        steps=[node.name for node in again],
        dependents=names,
    )


def changed(mill: Mill, job: JobRow, requested: Changes, step_name: str, now: int) -> Effect:
    if not change.check_change(mill, job, requested, now, step_name=step_name):
        return _unchanged(job, f"{_name(job)} has these values already.")
    nodes = [node for node in _nodes(mill, job) if step_name in ("", node.name)]
    found = _total(counts(mill, nodes))
    waiting, running = _not_started(found), found[TaskState.RUNNING]
    where = f"step {step_name} of {_name(job)}" if step_name else f"all steps of {_name(job)}"
    moves = "worker_groups" in requested or "priority" in requested
    queue = ", and move to the queue for them" if moves else ""
    have, they = _is(waiting, "has", "have"), _is(running, "it is", "they are")
    return _effect(
        job,
        [
            f"Changes {change.describe(requested)}, for {where}, in this run and later ones.",
            waiting and f"{_plural(waiting, 'task')} that {have} not started will get the new values{queue}.",
            running and f"{_plural(running, 'running task')} will continue as {they}.",
        ],
    )


def deletion(mill: Mill, job: JobRow, *, full: bool) -> Effect:
    first = f"{_name(job)} is {'deleted' if job.state.ended else 'killed and deleted'}."
    more = "Its rows, files and logs are removed, and cannot be restored." if full else ""
    last = "Its name and trigger can be used again."
    return _ending(mill, job, JobState.DELETED, [first], more, last)


def _ending(mill: Mill, job: JobRow, state: JobState, first: Sequence[str], *last: str) -> Effect:
    found = Counter[TaskState]() if job.state.ended else _counts(mill, job)
    running, left = found[TaskState.RUNNING], _not_started(found)
    return _effect(
        job,
        [
            *first,
            running and f"{_plural(running, 'running task')} will be stopped.",
            left and f"{_plural(left, 'task')} that {_is(left, 'has', 'have')} not started will not run.",
            *last,
        ],
        becomes=state,
        tasks_stopped=running,
        tasks_cancelled=left,
    )


def _step_end(mill: Mill, job: JobRow, step: StepRow, state: StepState, last: str) -> Effect:
    found = _total(counts(mill, [step]))
    running, left = found[TaskState.RUNNING], _not_started(found)
    return _effect(
        job,
        [
            f"Step {step.name} of {_name(job)} ends as {state}.",
            running and f"{_plural(running, 'running task')} will be stopped.",
            left and f"{_plural(left, 'task')} that {_is(left, 'has', 'have')} not started will not run.",
            last,
        ],
        becomes=None,
        tasks_stopped=running,
        tasks_cancelled=left,
    )


def _task_end(mill: Mill, job: JobRow, step: StepRow, rank: int, index: int, state: TaskState) -> Effect:
    number = block_of(rank)
    shard = mill.shards.blocks(step, [number])[number][rank]
    named = f"Task {index} of step {step.name}"
    if not kill.check_end_task(shard, state):
        return _unchanged(job, f"{named} is {state} already.")
    running = shard.state is TaskState.RUNNING
    return _effect(
        job,
        [
            f"{named} ends as {state}.",
            "Its worker stops it at its next heartbeat." if running else "It will not run.",
            "The other tasks of the step continue.",
        ],
        becomes=None,
        tasks_stopped=int(running),
        tasks_cancelled=int(not running),
    )


def _effect(job: JobRow, sentences: Iterable[object], **fields: Any) -> Effect:
    """Sentences that are empty or do not apply are left out."""
    texts = [each for each in sentences if isinstance(each, str) and each]
    known = {"becomes": job.state, "run": job.run, "changes": True} | fields
    return Effect(job_name=job.job_name, trigger=job.trigger, state=job.state, sentences=texts, **known)


def _unchanged(job: JobRow, why: str) -> Effect:
    return _effect(job, [why, "Nothing changes."], changes=False)


def _nodes(mill: Mill, job: JobRow) -> list[StepRow]:
    return [node for node in run_nodes(mill, job) if node.kind == "step"]


def _counts(mill: Mill, job: JobRow) -> Counter[TaskState]:
    return _total(counts(mill, _nodes(mill, job)))


def _total(found: Mapping[int, Mapping[TaskState, int]]) -> Counter[TaskState]:
    total: Counter[TaskState] = Counter()
    for each in found.values():
        total.update(each)
    return total


def _not_started(found: Counter[TaskState]) -> int:
    return sum(found[state] for state in _NOT_STARTED)


def _tasks_again(step: StepRow, redo: str | list[int], found: Mapping[TaskState, int]) -> int:
    if isinstance(redo, list):
        return len(redo)
    return task_count(step) - (found.get(TaskState.SUCCESS, 0) if redo == FAILED_TASKS else 0)


def _repeated(mill: Mill, step: StepRow, redo: str | list[int], found: Mapping[TaskState, int]) -> int:
    """Return how many tasks of a step succeeded and run again."""
    if isinstance(redo, list):
        blocks = mill.shards.blocks(step.home, sorted({block_of(rank) for rank in redo}))
        return sum(blocks[block_of(rank)][rank].state is TaskState.SUCCESS for rank in redo)
    return found.get(TaskState.SUCCESS, 0) if redo == ALL_TASKS else 0


def _runs_again(tasks: int, steps: Sequence[str], known: bool) -> str:
    some = "" if known else "at least "
    return f"{some}{_plural(tasks, 'task')} will run, in {_plural(len(steps), 'step')}: {_names(steps)}."


def _name(job: JobRow) -> str:
    return f"{job.job_name}/{job.trigger}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _is(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
