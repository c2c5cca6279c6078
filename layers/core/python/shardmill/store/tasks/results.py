"""Reports and outputs of attempts at tasks, in the partitions of their blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.model.blocks import block_count, block_of
from shardmill.store import keys
from shardmill.store.codec import to_json
from shardmill.store.rows import StepRow
from shardmill.store.table import Table
from shardmill.store.tasks import keys as task_keys
from shardmill.store.update import Item


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of an attempt: a small value, and the descriptions of the files that it stored."""

    output: Any = None
    files: Sequence[dict[str, Any]] = ()


class TaskResults:
    def __init__(self, table: Table) -> None:
        self._table = table

    def put_attempts(self, attempts: Iterable[tuple[StepRow, int, dict[str, Any]]]) -> None:
        """Store reports on attempts: `(step, rank, {"attempt": n, …})`."""
        items: dict[str, Item] = {}
        for step, rank, attempt in attempts:
            report = attempt["attempt"], attempt["worker"], attempt.get("outcome", "")
            key = task_keys.attempt(*step.key, rank, *report)
            items[f"{key}"] = {**key, "attempt": json.dumps(attempt)}
        self._table.batch_put(list(items.values()))

    def put_outputs(self, outputs: Iterable[tuple[StepRow, int, int, TaskOutput]]) -> None:
        """Store outputs of attempts; only the output of the successful attempt is used."""
        items: dict[str, Item] = {}
        for step, rank, attempt, kept in outputs:
            key = task_keys.output(*step.key, rank, attempt)
            items[f"{key}"] = {**key, "output": to_json(kept.output), "files": to_json(kept.files)}
        self._table.batch_put(list(items.values()))

    def output(self, step: StepRow, rank: int, attempt: int) -> TaskOutput | None:
        item = self._table.get(task_keys.output(*step.key, rank, attempt))
        return _output(item) if item else None

    def outputs(self, step: StepRow) -> dict[tuple[int, int], TaskOutput]:
        """All outputs of a step in its run, by rank and attempt."""
        found: dict[tuple[int, int], TaskOutput] = {}
        for partition in partitions_of(step):
            for item in self._table.query(partition, prefix=task_keys.OUTPUTS, consistent=True):
                found[task_keys.parse_output(item)] = _output(item)
        return found

    def attempts(self, step: StepRow, rank: int) -> list[dict[str, Any]]:
        partition = keys.partition_of(task_keys.block(*step.key, block_of(rank)))
        items = self._table.query(partition, prefix=task_keys.attempts_of(rank), consistent=True)
        return [json.loads(item["attempt"]) for item in items]


def partitions_of(step: StepRow) -> list[keys.Partition]:
    """The partitions with the blocks of a step, and with the attempts and outputs of their tasks."""
    return task_keys.task_partitions(*step.key, block_count(step.total))


def _output(item: Item) -> TaskOutput:
    return TaskOutput(json.loads(item["output"]), json.loads(item.get("files", "[]")))
