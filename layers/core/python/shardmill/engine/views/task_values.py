"""The values that tasks of a step returned, a block of tasks at a time."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.views.tasks import first_index
from shardmill.model.base import Answer
from shardmill.model.blocks import BLOCK_SIZE, block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow


class TaskValue(Answer):
    """The value that a task returned to later steps."""

    index: int
    value: Any


class TaskValues(Answer):
    """The values of the successful tasks of a block that returned one."""

    total: int = Field(description="tasks of the step")
    start: int = Field(description="rank of the first task of this answer")
    items: list[TaskValue]


def task_values(mill: Mill, step: StepRow, start: int) -> TaskValues:
    """Return the values of up to BLOCK_SIZE tasks from a rank on; reads their block, and a row for each."""
    home = step.home
    first = min(start, max(step.total - 1, 0)) // BLOCK_SIZE * BLOCK_SIZE
    block = mill.shards.blocks(home, [block_of(first)]).get(block_of(first)) if step.total else None
    found = [
        (rank, outputs.of_task(mill, home, rank, shard.attempt))
        for rank, shard in (block.items() if block else ())
        if shard.state is TaskState.SUCCESS
    ]
    return TaskValues(
        total=step.total,
        start=first,
        items=[
            TaskValue(index=rank + first_index(step), value=each.stored.output)
            for rank, each in found
            if each and each.stored.output is not None
        ],
    )
