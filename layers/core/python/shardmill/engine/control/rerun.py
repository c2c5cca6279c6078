"""Running a Job again, all of it or a part: a new run of the same Job, in which the rest is kept.

The commit point is one conditional write that raises the Job's run; what is to be done again is in that
write, so that planning the new run can be repeated. Older runs stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardmill.engine.errors import Conflict, JobNotEnded, StepNotFound
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.mill import Mill
from shardmill.engine.running import kill
from shardmill.engine.running.finish import end_early
from shardmill.model.actor import Actor
from shardmill.model.definition.fields import upstream_of
from shardmill.model.definition.references import steps_read_by
from shardmill.model.states import JobState
from shardmill.model.time.deadline import deadline
from shardmill.store.rows import ALL_TASKS, FAILED_TASKS, JobRow, StepRow

AGAIN = (JobState.SUCCESS, JobState.FAILED, JobState.KILLED, JobState.SUSPENDED)

Redo = dict[str, str | list[int]]
"""By the index of a step, as JSON has it: which of its tasks run again."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to run again: what failed, everything, or certain steps, or certain tasks of one."""

    everything: bool = False
    steps: Sequence[str] = ()
    ranks: Sequence[int] = ()
    downstream: bool = False


def rerun(mill: Mill, job: JobRow, scope: Scope, actor: Actor, reason: str, now: int) -> JobRow:
    """Start the next run of a Job that has ended or is suspended; raises if there is nothing to do."""
    if job.state not in AGAIN:
        raise JobNotEnded(f"the Job {job.job_name}/{job.trigger} is {job.state}; kill or suspend it first")
    redo = _what(mill, job, scope)
    if job.parked or job.event_pending:
        _end(mill, job, actor, now)
        redo = _what(mill, job, scope)
    again = mill.jobs.next_run(
        job,
        redo=redo,
        sources=AGAIN,
        now=now,
        due=now + START_GRACE_MS,
        actor=actor.name,
        reason=reason or _in_words(scope),
        deadline=deadline(now, job.deadline_seconds, job.deadline_time, job.timezone),
    )
    if not again:
        raise _changed(mill, job)
    start_job(mill, again, now)
    return again


def _what(mill: Mill, job: JobRow, scope: Scope) -> Redo:
    nodes = [node for node in mill.jobs.steps(job.id, job.run) if node.kind == "step"]
    redo = _redo(nodes, scope)
    if nodes and not redo:
        named = f"{job.job_name}/{job.trigger}"
        raise Conflict(
            f"the Job {named} is {job.state} and nothing of it failed; say what to run again, or all"
        )
    return redo


def _end(mill: Mill, job: JobRow, actor: Actor, now: int) -> None:
    """End what still runs of a Job: of one that was suspended, or whose kill has not come to its end.

    A suspended one is ended first: if another has it go on, one of the two finds it changed.
    """
    if job.state is JobState.SUSPENDED and job.parked:
        notes, parked = f"ended by {actor.name}, to run again", (JobState.SUSPENDED,)
        if not end_early(mill, job, JobState.KILLED, parked, notes, now, actor=actor.name, tell=False):
            raise _changed(mill, job)
    kill.end_steps(mill, job, actor.name, now)


def _changed(mill: Mill, job: JobRow) -> JobNotEnded:
    present = mill.jobs.get(job.id) or job
    return JobNotEnded(f"the Job {job.job_name}/{job.trigger} is {present.state}, in run {present.run}")


def _in_words(scope: Scope) -> str:
    if scope.everything:
        return "rerun of everything"
    if not scope.steps:
        return "rerun of what failed"
    named = ", ".join(scope.steps)
    return f"recomputed from {named}" if scope.downstream else f"rerun of {named}"


def _redo(nodes: Sequence[StepRow], scope: Scope) -> Redo:
    if scope.everything:
        return {str(node.index): ALL_TASKS for node in nodes}
    if not scope.steps:
        failed = {node.index for node in nodes if not _fine(node)}
        doubtful = {index for index in _downstream(nodes, failed) if nodes[index].not_wanted}
        return {str(index): FAILED_TASKS for index in sorted(failed | doubtful)}
    by_name = {node.name: node for node in nodes}
    missing = [name for name in scope.steps if name not in by_name]
    if missing:
        raise StepNotFound(f"the Job has no step {missing[0]!r}")
    named = {by_name[name].index for name in scope.steps}
    below = _downstream(nodes, named)
    redo: Redo = {str(index): ALL_TASKS for index in named}
    if scope.ranks:
        [index] = named
        redo[str(index)] = sorted(set(scope.ranks))
    if scope.downstream:
        return redo | {str(index): ALL_TASKS for index in below}
    again = (index for index in below if not _fine(nodes[index]) or nodes[index].not_wanted)
    return redo | {str(index): FAILED_TASKS for index in again}


def _fine(step: StepRow) -> bool:
    return step.state.lets_dependents_run or step.not_wanted


def _downstream(nodes: Sequence[StepRow], named: Collection[int]) -> set[int]:
    """The steps that depend on some or read what they hand on, directly or not; a phase alone only orders."""
    waits: dict[str, list[int]] = {}
    for node in nodes:
        for name in {*upstream_of(node.define), *steps_read_by(node.spec)}:
            waits.setdefault(name, []).append(node.index)
    found: set[int] = set()
    new = [nodes[index].name for index in named]
    while new:
        below = {index for name in new for index in waits.get(name, ())} - found
        found |= below
        new = [nodes[index].name for index in below]
    return found - set(named)
