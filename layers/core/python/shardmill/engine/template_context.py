"""The variables that the templates of a step's tasks can use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from shardmill.engine.task_id import task_id
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.task_count import pack_count, pack_numbers, pack_of
from shardmill.model.templates.render import TemplateError, as_text, evaluate, render_value
from shardmill.store.rows import StepRow

if TYPE_CHECKING:
    from shardmill.model.definition.fields import StepDefine
    from shardmill.model.definition.step_settings import StepSettings


_INTEGER = re.compile(r"-?\d{1,16}\Z", re.ASCII)


def program_of(step: StepRow) -> str:
    """Return the name of the command that the tasks of a step run."""
    spec = step.define
    if not spec.command:
        return ""
    return str(render_value(spec.command.name, context_of(step, spec, 0), False))


def context_of(step: StepRow, spec: StepDefine | StepSettings, rank: int) -> dict[str, Any]:
    data_time = step.context.get("dataTime")
    context: dict[str, Any] = {
        "params": spec.params,
        "shard": {"index": rank + spec.start_shard_id, "total": step.total + spec.start_shard_id},
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
    if isinstance(items, list) and rank + spec.start_shard_id < len(items):
        context["item"] = items[rank + spec.start_shard_id]
    if pack := pack_range(step, spec, rank):
        context["pack"] = {"start": pack[0], "end": pack[1]}
    return context


def pack_range(step: StepRow, spec: StepDefine | StepSettings, rank: int) -> tuple[int, int] | None:
    """Return the range of a task of a PACK step; None if it has none, or is not known yet."""
    if spec.step_type != "PACK":
        return None
    numbers = step.context.get("pack") or pack_numbers(spec)
    return pack_of(spec, rank, numbers) if numbers else None


def resolve_pack(step: StepRow, spec: StepDefine | StepSettings) -> list[int]:
    """Evaluate the packConf of a step: its size, start and end. Raises TemplateError."""
    assert spec.pack_conf
    context = context_of(step, spec, 0)
    size, start, end = (
        _pack_number(name, getattr(spec.pack_conf, name), context) for name in ("size", "start", "end")
    )
    if size < 1 or start > end:
        raise TemplateError(f"packConf has the size {size} and the range {start} to {end}")
    tasks = pack_count(size, start, end)
    if tasks > MAX_SHARDS:
        raise TemplateError(f"packConf results in {tasks} tasks; the maximum is {MAX_SHARDS}")
    return [size, start, end]


def _pack_number(name: str, value: int | str, context: dict[str, Any]) -> int:
    found = evaluate(value, context) if isinstance(value, str) else value
    if isinstance(found, str) and _INTEGER.match(found):
        found = int(found)
    if type(found) is not int or abs(found) >= 2**53:
        raise TemplateError(f"packConf.{name} must be an integer, not {as_text(found)[:64]}")
    return found
