"""What the tasks of a step left for later ones: values and files of the attempts that count."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.engine.mill import Mill
from shardmill.model.blocks import block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.shards import TaskOutput


@dataclass(frozen=True, slots=True)
class Left:
    """What a task left, and the run and the attempt in which it did."""

    rank: int
    run: int
    attempt: int
    kept: TaskOutput


def of_step(mill: Mill, source: StepRow) -> list[Left]:
    """What each task of a step left that succeeded and had something to leave, in their order."""
    home = source.home
    missing = {
        (rank, shard.attempt)
        for block in mill.shards.all_blocks(home)
        for rank, shard in block.items()
        if shard.state is TaskState.SUCCESS
    }
    found: list[Left] = []
    for run in range(home.run, 0, -1):  # a task that a rerun kept left it in the run that it ran in
        if not missing:
            break
        there = mill.shards.outputs(home.of_run(run))
        found += [Left(rank, run, attempt, there[rank, attempt]) for rank, attempt in missing & there.keys()]
        missing -= there.keys()
    return sorted(found, key=lambda left: left.rank)


def of_rank(mill: Mill, source: StepRow, rank: int) -> Left | None:
    home = source.home
    shard = mill.shards.blocks(home, [block_of(rank)])[block_of(rank)][rank]
    return of_task(mill, home, rank, shard.attempt) if shard.state is TaskState.SUCCESS else None


def of_task(mill: Mill, step: StepRow, rank: int, attempt: int) -> Left | None:
    for run in range(step.run, 0, -1):
        kept = mill.shards.output(step.of_run(run), rank, attempt)
        if kept:
            return Left(rank, run, attempt, kept)
    return None
