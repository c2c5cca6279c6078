"""The variables that the templates of a step's tasks can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardmill.engine.task_id import task_id
from shardmill.model.templates.render import render_value
from shardmill.store.rows import StepRow

if TYPE_CHECKING:
    from shardmill.model.definition.fields import StepDefine


def program_of(step: StepRow) -> str:
    """Return the name of the command that the tasks of a step run."""
    spec = step.define
    if not spec.command:
        return ""
    return str(render_value(spec.command.name, context_of(step, spec, 0), False))


def context_of(step: StepRow, spec: StepDefine, rank: int) -> dict[str, Any]:
    data_time = step.context.get("dataTime")
    context: dict[str, Any] = {
        "params": spec.params,
        "shard": {"index": rank + spec.start_shard_id, "total": step.total},
        "job": {
            "name": step.job_name,
            "trigger": step.trigger,
            "id": step.job_id,
            "dataTime": data_time or "",
        },
        "step": {"name": step.name},
        "task": {"id": task_id(step, rank)},
    }
    if "steps" in step.context:
        context["steps"] = step.context["steps"]
    items = step.context.get("items", spec.items)
    if isinstance(items, list) and rank < len(items):
        context["item"] = items[rank]
    if spec.step_type == "PACK":
        from shardmill.model.definition.fields import pack_of  # the tick runs without these models

        start, end = pack_of(spec, rank)
        context["pack"] = {"start": start, "end": end}
    return context
