"""Rerun a Job or a part of it: a new run of the same Job that keeps the other results.

The commit point is one conditional write that increments the Job's run and stores what runs again, so that
planning the new run can be repeated. Older runs stay readable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from shardmill.engine.access.limits import check_room, limits_reported
from shardmill.engine.continuation import Budget
from shardmill.engine.errors import Conflict, JobNotEnded, StepNotFound
from shardmill.engine.jobs import unique
from shardmill.engine.jobs.carry_over import ALL_TASKS, FAILED_TASKS, last_planned
from shardmill.engine.jobs.count_existing import counted_tasks
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.jobs.effective import (
    bound_groups_for,
    effective_steps,
    ignored_steps,
    pinned_definition,
)
from shardmill.engine.jobs.runnable import check_runnable
from shardmill.engine.mill import Mill
from shardmill.engine.running import kill
from shardmill.engine.running.finish import announce, end_early
from shardmill.engine.running.release import passed_over, skipped_by_condition
from shardmill.model.actor import Actor
from shardmill.model.definition.fields import upstream_of
from shardmill.model.definition.references import steps_read_by
from shardmill.model.states import JobState
from shardmill.model.time.deadline import deadline
from shardmill.store.rows import JobRow, StepRow

_NAMED_PARAMS = 5
RERUNNABLE = (JobState.SUCCESS, JobState.FAILED, JobState.KILLED, JobState.SUSPENDED)

TasksToRerun = dict[str, str | list[int]]
"""By step index (a string, as in JSON): ALL_TASKS, FAILED_TASKS or the ranks that run again."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts that run again: by default failed tasks; else everything, some steps, or tasks of one
    step."""

    everything: bool = False
    steps: Sequence[str] = ()
    ranks: Sequence[int] = ()
    downstream: bool = False


def rerun(
    mill: Mill,
    job: JobRow,
    scope: Scope,
    actor: Actor,
    reason: str,
    now: int,
    *,
    params: Mapping[str, Any] = MappingProxyType({}),
    with_dependents: bool = False,
    rerun_with: str = "",
) -> JobRow:
    """Start the next run of a Job that has ended or is suspended. Raises Conflict if nothing failed.

    `params`: new values of parameters, for this run and later ones. `with_dependents`: the caller reruns its
    dependents too. `rerun_with`: the run that it is a dependent of; it waits for its parents again.
    """
    redo, changed = check_rerun(mill, job, scope, params, now)
    expires, tasks = None, None
    if mill.settings.limits.any or job.counted_tasks is not None:
        tasks = counted_tasks(mill, job.evolve(params=changed) if changed else job)
    if job.parked or job.event_pending:
        if tasks is not None:  # before the run is ended
            check_room(mill, job.app_name, mill.usage.run_claim(job, tasks)[1], actor)
        _end_current_run(mill, job, actor, now)
        redo = _tasks_to_rerun(mill, job, scope)
    if job.unmet or rerun_with:
        expires = now + pinned_definition(mill, job).expired_seconds * 1000
        mill.runs.add_edges(job)
    with limits_reported(mill, actor):
        started = mill.jobs.next_run(
            unique.claim(mill, job) if job.unique else job,
            redo=redo,
            sources=RERUNNABLE,
            now=now,
            due=now + START_GRACE_MS,
            actor=actor.name,
            reason=reason or _describe(scope, params),
            deadline=deadline(now, job.deadline_seconds, job.deadline_time, job.timezone),
            expires=expires,
            params=changed,
            with_dependents=with_dependents,
            rerun_with=rerun_with,
            tasks=tasks,
        )
    if not started:
        present = mill.jobs.get(job.id) or job
        if tasks is None or present.counted_tasks == job.counted_tasks:
            raise _changed(mill, job)
        # Its end was completed meanwhile, so it no longer counts; that happens once for a run.
        again: dict[str, Any] = {"params": params, "with_dependents": with_dependents}
        return rerun(mill, present, scope, actor, reason, now, rerun_with=rerun_with, **again)
    if rerun_with:
        mill.runs.add_edges(started)  # again: a parent that ends meanwhile may have deleted them
    start_job(mill, started, now)
    return started


def check_rerun(
    mill: Mill, job: JobRow, scope: Scope, params: Mapping[str, Any], now: int
) -> tuple[TasksToRerun, dict[str, Any] | None]:
    """Return what would run again, and the parameters if they change; only reads.

    Raises JobNotEnded, StepNotFound, RequestInvalid, or Conflict if nothing failed.
    """
    if job.state not in RERUNNABLE:
        raise JobNotEnded(f"the Job {job.job_name}/{job.trigger} is {job.state}; kill or suspend it first")
    changed = _changed_params(mill, job, params, now) if params else None
    return _tasks_to_rerun(mill, job, scope), changed


def _tasks_to_rerun(mill: Mill, job: JobRow, scope: Scope) -> TasksToRerun:
    run, planned = last_planned(mill, job.id, job.run)
    nodes = [node for node in planned.values() if node.kind == "step"]
    redo = _select(nodes, scope)
    if run < job.run and scope == Scope():
        redo |= job.redo  # the run that was not planned has repeated nothing of it
    if nodes and not redo:
        named = f"{job.job_name}/{job.trigger}"
        raise Conflict(
            f"the Job {named} is {job.state} and nothing in it failed; select the steps to rerun, or all"
        )
    return redo


def _end_current_run(mill: Mill, job: JobRow, actor: Actor, now: int) -> None:
    """End the open steps of a run that is suspended or whose kill is not complete; planning does the rest.

    A suspended Job is ended first, so that of a concurrent resume and this rerun one fails. If the event of
    the run is still to be published, that is done now: the next run has its own.
    """
    if job.state is JobState.SUSPENDED and job.parked:
        notes, parked = f"ended by {actor.name} for a rerun", (JobState.SUSPENDED,)
        if not end_early(mill, job, JobState.KILLED, parked, notes, now, actor=actor.name, publish=False):
            raise _changed(mill, job)
    kill.end_steps(mill, job, actor.name, now, Budget())
    if job.event_pending and not job.parked:
        announce(mill, job, now)


def _changed(mill: Mill, job: JobRow) -> JobNotEnded:
    present = mill.jobs.get(job.id) or job
    return JobNotEnded(f"the Job {job.job_name}/{job.trigger} is {present.state}, in run {present.run}")


def _changed_params(mill: Mill, job: JobRow, params: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Return the parameters of a Job with new values. Raises RequestInvalid if it could not run with them."""
    changed = job.evolve(params={**job.params, **params})
    define = pinned_definition(mill, job)
    ignored = ignored_steps(changed)
    specs = effective_steps(define, changed, bound_groups_for(mill, define))
    check_runnable(mill, changed, [spec for spec in specs if spec.step_name not in ignored], now)
    return dict(changed.params)


def _describe(scope: Scope, params: Mapping[str, Any]) -> str:
    changed = f" with other values of {', '.join(sorted(params)[:_NAMED_PARAMS])}" if params else ""
    if scope.everything:
        return f"rerun of everything{changed}"
    if not scope.steps:
        return f"rerun of what failed{changed}"
    named = ", ".join(scope.steps)
    return (f"recomputed from {named}" if scope.downstream else f"rerun of {named}") + changed


def _select(nodes: Sequence[StepRow], scope: Scope) -> TasksToRerun:
    if scope.everything:
        return {str(node.index): ALL_TASKS for node in nodes}
    if not scope.steps:
        failed = {node.index for node in nodes if not _is_ok(node)}
        skipped = {index for index in _downstream(nodes, failed) if skipped_by_condition(nodes[index])}
        return {str(index): FAILED_TASKS for index in sorted(failed | skipped)}
    by_name = {node.name: node for node in nodes}
    missing = [name for name in scope.steps if name not in by_name]
    if missing:
        raise StepNotFound(f"the Job has no step {missing[0]!r}")
    named = {by_name[name].index for name in scope.steps}
    below = _downstream(nodes, named)
    redo: TasksToRerun = {str(index): ALL_TASKS for index in named}
    if scope.ranks:
        [index] = named
        redo[str(index)] = sorted(set(scope.ranks))
    if scope.downstream:
        return redo | {str(index): ALL_TASKS for index in below}
    again = (index for index in below if not _is_ok(nodes[index]) or skipped_by_condition(nodes[index]))
    return redo | {str(index): FAILED_TASKS for index in again}


def _is_ok(step: StepRow) -> bool:
    return step.state.lets_dependents_run or passed_over(step)


def _downstream(nodes: Sequence[StepRow], named: Collection[int]) -> set[int]:
    """Return the steps that depend on the named ones or read their outputs, directly or not.

    A later phase alone does not count: phases only order.
    """
    dependents: dict[str, list[int]] = {}
    for node in nodes:
        for name in {*upstream_of(node.define), *steps_read_by(node.spec)}:
            dependents.setdefault(name, []).append(node.index)
    found: set[int] = set()
    new = [nodes[index].name for index in named]
    while new:
        below = {index for name in new for index in dependents.get(name, ())} - found
        found |= below
        new = [nodes[index].name for index in below]
    return found - set(named)
