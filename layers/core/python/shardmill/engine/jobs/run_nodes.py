"""The nodes of a run; until it is planned, they are derived from the definition that the Job is pinned to."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from shardmill.engine.errors import Conflict, DefinitionNotFound, JobEnded, StepNotFound
from shardmill.engine.jobs.effective import bound_groups_of, effective_steps, pinned_definition
from shardmill.engine.jobs.graph import graph
from shardmill.engine.mill import Mill
from shardmill.engine.running.kill import is_complete
from shardmill.model.definition.fields import StepDefine
from shardmill.model.history import Change
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

NEVER_PLANNED = "the Job ended before it was planned"


def run_nodes(mill: Mill, job: JobRow, *, consistent: bool = True) -> list[StepRow]:
    """Return the nodes of a run in order; reads the definition only if rows are missing."""
    nodes = mill.jobs.steps(job.id, job.run, consistent=consistent)
    if not is_complete(nodes) and not consistent:
        nodes = mill.jobs.steps(job.id, job.run)
    return nodes if is_complete(nodes) else _with_missing(mill, job, nodes)


def nodes_to_plan(job: JobRow, steps: Sequence[StepDefine]) -> list[StepRow]:
    """Return the nodes of a Job that was just submitted. `steps`: with their effective settings."""
    return graph(steps, job, job.update_time)


def find_step(job: JobRow, nodes: Sequence[StepRow], step_name: str) -> StepRow:
    """Return a step in the run that holds its tasks."""
    for node in nodes:
        if node.kind == "step" and node.name == step_name:
            return node.home
    raise StepNotFound(f"the Job {job.job_name}/{job.trigger} has no step {step_name!r}")


def planned_step(mill: Mill, job: JobRow, step_name: str, now: int, *, dry_run: bool = False) -> StepRow:
    """Return a step to change it, after planning a Job that was just accepted; else raises Conflict.

    `dry_run`: return the step as it would be planned.
    """
    nodes = mill.jobs.steps(job.id, job.run)
    if not is_complete(nodes):
        found = find_step(job, _with_missing(mill, job, nodes), step_name)
        if job.state is JobState.INIT and dry_run:
            return found
        if job.state is JobState.INIT:
            from shardmill.engine.jobs.plan import plan  # usually the Job's execution has planned it

            plan(mill, job.id, job.run, now)
            nodes = mill.jobs.steps(job.id, job.run)
    if not is_complete(nodes):
        named = f"the Job {job.job_name}/{job.trigger}"
        if job.state.ended:
            raise JobEnded(f"{named} ended as {job.state} before its steps were planned")
        raise Conflict(f"{named} is {job.state}; its steps are planned, and can be changed, when it starts")
    return find_step(job, nodes, step_name)


def _with_missing(mill: Mill, job: JobRow, present: Sequence[StepRow]) -> list[StepRow]:
    try:
        define = pinned_definition(mill, job)
    except (DefinitionNotFound, ValidationError):
        return list(present)  # it cannot be planned either; its notes say why
    nodes = nodes_to_plan(job, effective_steps(define, job, bound_groups_of(mill, define, job)))
    superseded = _superseded(job)
    if job.run > 1 and not superseded:
        from shardmill.engine.jobs.carry_over import keep_steps, last_planned  # only reruns need it

        _, before = last_planned(mill, job.id, job.run - 1)
        nodes = keep_steps(job, nodes, before)
    if superseded or job.state.ended:
        ended = None if superseded else job.completed_time
        nodes = [node if node.state.ended else _never_planned(node, ended) for node in nodes]
    known = {node.index: node for node in present}
    return [known.get(node.index, node) for node in nodes]


def _superseded(job: JobRow) -> bool:
    """Return whether `job` is a row of an earlier run: what runs again in it is no longer known."""
    return bool(job.history) and Change.decode(job.history[-1]).run > job.run


def _never_planned(node: StepRow, ended: int | None) -> StepRow:
    return node.evolve(state=StepState.KILLED, completed_time=ended, notes=NEVER_PLANNED)
