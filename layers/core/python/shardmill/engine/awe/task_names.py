"""How the AWE protocol names the tasks and workunits of a job, from their steps."""

from __future__ import annotations

from collections.abc import Mapping

from shardmill.engine.task_id import parse_task_id
from shardmill.model.awe.names import address_name, task_name, work_id
from shardmill.store.rows import StepRow


def submitted_name(step: StepRow) -> str:
    """The id of a task as its document has it."""
    given: str | None = step.spec.get("taskid")  # not `define`, which heartbeats would have to parse
    return given or task_name(step.name)


def name_in_ids(step: StepRow) -> str:
    """The name of a task in its id and in those of its workunits."""
    return address_name(submitted_name(step), step.name)


def task_id(step: StepRow) -> str:
    return f"{step.job_id}_{name_in_ids(step)}"


def unit_id(step: StepRow, rank: int) -> str:
    """The id of the workunit of a task with this rank."""
    return work_id(step.job_id, name_in_ids(step), rank, step.total)


def awe_id(engine_id: str, steps: Mapping[int, StepRow]) -> str:
    """The id of a workunit for that of a task of the engine; empty if there is none."""
    parsed = parse_task_id(engine_id) if engine_id else None
    step = steps.get(parsed[1]) if parsed else None
    if not parsed or not step:
        return ""
    return unit_id(step, parsed[2])
