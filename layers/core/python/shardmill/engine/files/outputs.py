"""Outputs of tasks, values and files, for later steps: the outputs of successful attempts."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.engine.mill import Mill
from shardmill.model.blocks import block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.tasks.results import TaskOutput


@dataclass(frozen=True, slots=True)
class AttemptOutput:
    """The output of a task, with the run and the attempt that stored it."""

    rank: int
    run: int
    attempt: int
    stored: TaskOutput


def of_step(mill: Mill, source: StepRow) -> list[AttemptOutput]:
    """The outputs of the successful tasks of a step that have one, ordered by rank."""
    home = source.home
    missing = {
        (rank, shard.attempt)
        for block in mill.shards.all_blocks(home)
        for rank, shard in block.items()
        if shard.state is TaskState.SUCCESS
    }
    found: list[AttemptOutput] = []
    for run in range(home.run, 0, -1):  # if a rerun kept a task, its output is in the run that executed it
        if not missing:
            break
        stored = mill.shards.outputs(home.of_run(run))
        found += [
            AttemptOutput(rank, run, attempt, stored[rank, attempt])
            for rank, attempt in missing & stored.keys()
        ]
        missing -= stored.keys()
    return sorted(found, key=lambda output: output.rank)


def of_rank(mill: Mill, source: StepRow, rank: int) -> AttemptOutput | None:
    home = source.home
    shard = mill.shards.blocks(home, [block_of(rank)])[block_of(rank)][rank]
    return of_task(mill, home, rank, shard.attempt) if shard.state is TaskState.SUCCESS else None


def of_task(mill: Mill, step: StepRow, rank: int, attempt: int) -> AttemptOutput | None:
    for run in range(step.run, 0, -1):
        stored = mill.shards.output(step.of_run(run), rank, attempt)
        if stored:
            return AttemptOutput(rank, run, attempt, stored)
    return None
