"""How many tasks a step has, and the ranges of its packs.

The functions take a StepDefine or the StepSettings of a row, which need no Pydantic models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from shardmill.model.definition.fields import StepDefine
    from shardmill.model.definition.step_settings import StepSettings

    Step: TypeAlias = StepDefine | StepSettings


def total(step: Step) -> int | None:
    """The number of a step's tasks; None if it is known only when the upstream steps have ended."""
    count = shard_count(step)
    return None if count is None else max(0, count - step.start_shard_id)


def shard_count(step: Step) -> int | None:
    """The number of a step's shards, omitted ones included; None if it is not known yet."""
    if step.step_type == "PACK":
        numbers = pack_numbers(step)
        return pack_count(*numbers) if numbers else None
    if step.items is not None:
        return len(step.items) if isinstance(step.items, list) else None
    if step.partition or isinstance(step.sharding, str):
        return None
    return step.sharding


def is_sharded(step: Step) -> bool:
    """Whether the output of a step is a list with one element for each task."""
    return step.step_type == "PACK" or shard_count(step) != 1 or step.items is not None


def pack_count(size: int, start: int, end: int) -> int:
    return -((start - end - 1) // size)


def pack_numbers(step: Step) -> tuple[int, int, int] | None:
    """The size, start and end of a PACK step; None if one of them is an expression."""
    if step.step_type != "PACK" or step.pack_conf is None:
        raise ValueError("the step has no packConf")
    size, start, end = step.pack_conf.size, step.pack_conf.start, step.pack_conf.end
    if isinstance(size, str) or isinstance(start, str) or isinstance(end, str):
        return None
    return size, start, end


def pack_of(step: Step, rank: int, numbers: Sequence[int] | None = None) -> tuple[int, int]:
    """The inclusive range of the task `rank` of a PACK step.

    `numbers`: size, start and end of a step that has expressions for them.
    """
    size, start, end = numbers or pack_numbers(step) or (1, 0, -1)
    count = pack_count(size, start, end) - step.start_shard_id
    if not 0 <= rank < count:
        raise ValueError(f"the step has {count} tasks; there is no rank {rank}")
    first = start + (rank + step.start_shard_id) * size
    return first, min(first + size - 1, end)
