"""Many tasks of a step at once, in columns: a fraction of the size of a list of tasks."""

from __future__ import annotations

from pydantic import Field

from shardmill.engine.mill import Mill
from shardmill.engine.views.tasks import displayed_shard, first_index
from shardmill.model.base import Answer
from shardmill.model.blocks import LETTERS, block_count, block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow

MAX_TASKS = 10_000
BLOCKS_PER_READ = 100
STATE_LETTERS = {**LETTERS, TaskState.WAITING: "W"}


class GridWorker(Answer):
    id: str
    name: str


class TaskGrid(Answer):
    """Tasks of a step in the order of their index. Each column has one value for each task."""

    total: int = Field(description="tasks of the step")
    start: int = Field(description="rank of the first task of this answer")
    first_index: int = Field(description="index of the first task of this answer")
    states: str = Field(
        description="a letter each: W waiting, Q ready, R running, P suspended, S success, F failed, K killed"
    )
    attempts: list[int]
    failures: list[int]
    starts: list[int] = Field(description="milliseconds since 1970; 0 if it has not started")
    spans: list[int] = Field(description="duration of the last attempt in milliseconds; 0 while it runs")
    worker_of: list[int] = Field(description="position in `workers`; -1 if none")
    workers: list[GridWorker]


def task_grid(mill: Mill, step: StepRow, start: int) -> TaskGrid:
    """Return up to MAX_TASKS tasks from a rank on; reads one row for each 64 tasks."""
    first = min(start, step.total)
    last = min(first + MAX_TASKS, step.total)
    numbers = range(block_of(first), block_count(last))
    letters: list[str] = []
    attempts, failures, starts, spans, worker_of = [], [], [], [], []
    workers: dict[str, int] = {}
    for at in range(0, len(numbers), BLOCKS_PER_READ):
        for block in mill.shards.blocks(step, numbers[at : at + BLOCKS_PER_READ]).values():
            for rank, shard in block.items():
                if not first <= rank < last:
                    continue
                shown = displayed_shard(step, shard)
                begun = shard.attempt > 0 and shown.state is not TaskState.READY
                letters.append(STATE_LETTERS[shown.state])
                attempts.append(shard.attempt)
                failures.append(shard.failures)
                starts.append(shard.time if begun else 0)
                spans.append(shard.span if begun else 0)
                name = shard.worker_id
                worker_of.append(workers.setdefault(name, len(workers)) if name else -1)
    rows = mill.workers.by_id(set(workers))
    return TaskGrid(
        total=step.total,
        start=first,
        first_index=first + first_index(step),
        states="".join(letters),
        attempts=attempts,
        failures=failures,
        starts=starts,
        spans=spans,
        worker_of=worker_of,
        workers=[GridWorker(id=id, name=rows[id].name if id in rows else id) for id in workers],
    )
