"""The blocks of a step's tasks, their sets, and the attempts and outputs of tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from shardmill.model.blocks import (
    Block,
    Shard,
    block_of,
    block_size,
    blocks_of_set,
    set_count,
    set_of,
    state_of,
)
from shardmill.model.errors import Transient
from shardmill.model.states import TaskState
from shardmill.store import keys
from shardmill.store.codec import to_json
from shardmill.store.rows import StepRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Item, Update

FEW_BLOCKS = 16
_ENDS = {"success": TaskState.SUCCESS, "failed": TaskState.FAILED, "killed": TaskState.KILLED}


class BlockChanged(Transient):
    """A shard of the block no longer has the expected value; retry with the block as it is now."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block


@dataclass(frozen=True, slots=True)
class BlockSet:
    """The open blocks of a set, and how the tasks of its closed blocks ended."""

    open: frozenset[int]
    ends: Counter[TaskState]
    compute_ms: int

    @property
    def counts(self) -> dict[str, int]:
        """What the step's row adds when the set is closed."""
        return {**{name: self.ends[state] for name, state in _ENDS.items()}, "compute_ms": self.compute_ms}


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of an attempt: a small value, and the descriptions of the files that it stored."""

    output: Any = None
    files: Sequence[dict[str, Any]] = ()


class Shards:
    def __init__(self, table: Table) -> None:
        self._table = table

    def change(
        self,
        step: StepRow,
        number: int,
        expected: Mapping[int, Shard | None],
        wanted: Mapping[int, Shard],
        *,
        unswept: bool = False,
    ) -> Block:
        """Set shards of a block if each still has its expected value (None: never written).

        Returns the new block. Raises BlockChanged with the present block, and changes nothing, if a value
        differs or, with `unswept`, if the block is swept.
        """
        update = Update(keys.block(step.job_id, step.run, step.index, number))
        update.set_all({_slot(rank): shard.encode() for rank, shard in wanted.items()})
        update.if_all_equal(
            {_slot(rank): shard.encode() if shard else None for rank, shard in expected.items()}
        )
        if unswept:
            update.if_equal(swept=None)
        return self._apply(step, number, update)

    def sweep(self, step: StepRow, block: Block, wanted: Mapping[int, Shard]) -> Block:
        """Mark a block so that none of its tasks can be leased, and set the final values of some shards."""
        update = Update(keys.block(step.job_id, step.run, step.index, block.number)).set(swept=True)
        update.set_all({_slot(rank): shard.encode() for rank, shard in wanted.items()})
        update.if_all_equal({_slot(rank): block[rank].encode() for rank in wanted})
        return self._apply(step, block.number, update)

    def _apply(self, step: StepRow, number: int, update: Update) -> Block:
        try:
            return _block(step.total, number, self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed as failed:
            raise BlockChanged(_block(step.total, number, failed.old or {})) from failed

    def blocks(self, step: StepRow, numbers: Iterable[int]) -> dict[int, Block]:
        """The blocks with the given numbers, those without a row included."""
        wanted = list(numbers)
        items = self._table.batch_get([keys.block(step.job_id, step.run, step.index, n) for n in wanted])
        by_number = {keys.parse_block(item): item for item in items}
        return {number: _block(step.total, number, by_number.get(number, {})) for number in wanted}

    def blocks_of_set(self, step: StepRow, number: int) -> Iterator[Block]:
        """The blocks of a set in order, those without a row included."""
        partition = keys.partition_of(self._set_key(step, number))
        items = self._table.query(partition, prefix=keys.BLOCKS, consistent=True)
        by_number = {keys.parse_block(item): item for item in items}
        for block in blocks_of_set(step.total, number):
            yield _block(step.total, block, by_number.get(block, {}))

    def counts(self, steps: Sequence[StepRow]) -> dict[int, Counter[TaskState]]:
        """The number of tasks in each state, for each of the open steps of a job by its index.

        Closed blocks are counted in their set or step, and open blocks without a leased task have no row, so
        only the blocks in progress are read.
        """
        found = {
            step.index: Counter({state: getattr(step, name) for name, state in _ENDS.items()})
            for step in steps
        }
        opened: list[tuple[StepRow, Set[int]]] = []
        for step in steps:
            members = {int(member) for member in step.open}
            if not step.two_levels:
                opened.append((step, members))
                continue
            for part in self.sets(step, members).values():
                found[step.index].update(part.ends)
                opened.append((step, part.open))
        for step, item in self._touched(opened):
            found[step.index].update(_states(step, item))
        for step in steps:
            found[step.index][TaskState.READY] += step.total - found[step.index].total()
        return found

    def _touched(self, opened: Sequence[tuple[StepRow, Set[int]]]) -> Iterator[tuple[StepRow, Item]]:
        """The existing rows of blocks of several sets; sets with few blocks are read in one batch."""
        few: dict[tuple[str, ...], tuple[keys.Key, StepRow]] = {}
        for step, numbers in opened:
            places = [keys.block(step.job_id, step.run, step.index, number) for number in sorted(numbers)]
            if len(places) <= FEW_BLOCKS:
                few |= {tuple(place.values()): (place, step) for place in places}
                continue
            bounds = keys.key_range(places[0], places[-1])
            for item in self._table.query(keys.partition_of(places[0]), between=bounds):
                if keys.parse_block(item) in numbers:
                    yield step, item
        for item in self._table.batch_get([place for place, _ in few.values()], consistent=False):
            yield few[tuple(keys.key_of(item).values())][1], item

    def sets(self, step: StepRow, numbers: Iterable[int]) -> dict[int, BlockSet]:
        """Sets of a large step, by their numbers."""
        items = self._table.batch_get([self._set_key(step, number) for number in numbers], consistent=False)
        parts = [
            BlockSet(frozenset(map(int, item.get("open", ()))), _ends(item), item.get("compute_ms", 0))
            for item in items
        ]
        return {keys.parse_set(item): part for item, part in zip(items, parts, strict=True)}

    def all_blocks(self, step: StepRow) -> Iterator[Block]:
        for number in range(set_count(step.total)):
            yield from self.blocks_of_set(step, number)

    def open_blocks(self, step: StepRow) -> Iterator[Block]:
        """The open blocks of a step in order, those without a row included."""
        for number in range(set_count(step.total)):
            members = blocks_of_set(step.total, number)
            if not step.two_levels:
                still_open = {int(member) for member in step.open}
            elif str(number) in step.open:
                still_open = self.open_blocks_of_set(step, number)
            else:
                continue
            if still_open.isdisjoint(members):
                continue
            yield from (block for block in self.blocks_of_set(step, number) if block.number in still_open)

    def make_sets(self, step: StepRow) -> None:
        """Write the sets of a large step, unless they exist."""
        for number in range(set_count(step.total)):
            members = {str(block) for block in blocks_of_set(step.total, number)}
            try:
                self._table.put_new({**self._set_key(step, number), "open": members})
            except ConditionFailed:
                continue

    def purge_set(self, step: StepRow, number: int, *, most: int) -> int:
        """Delete up to `most` rows of a set (blocks, attempts and outputs); returns how many."""
        partition = keys.partition_of(self._set_key(step, number))
        items = islice(self._table.query(partition, only=keys.KEY, limit=most), most)
        found = [keys.key_of(item) for item in items]
        self._table.batch_delete(found)
        return len(found)

    def put_block(self, step: StepRow, block: Block) -> None:
        """Write a block of a new run, unless it exists: its tasks may have changed since."""
        shards = {_slot(rank): shard.encode() for rank, shard in block.shards.items()}
        try:
            self._table.put_new({**keys.block(step.job_id, step.run, step.index, block.number), **shards})
        except ConditionFailed:
            return

    def put_set(self, step: StepRow, number: int, members: Set[int], counts: Mapping[str, int]) -> None:
        """Write a set of blocks of a new run, unless it exists."""
        item: Item = {**self._set_key(step, number), **counts, "open": {str(block) for block in members}}
        try:
            self._table.put_new({name: value for name, value in item.items() if value != set()})
        except ConditionFailed:
            return

    def close_in_set(self, step: StepRow, block: int, counts: dict[str, int]) -> tuple[bool, dict[str, int]]:
        """Remove a finished block from its set; returns whether the set is empty, and its counts."""
        update = Update(self._set_key(step, set_of(block))).delete("open", {str(block)}).add(**counts)
        try:
            item = self._table.update(update.if_contains("open", str(block)), returns="ALL_NEW")
        except ConditionFailed as closed:
            item = closed.old or {}
        return not item.get("open"), {name: item.get(name, 0) for name in counts}

    def count_failures_in_set(self, step: StepRow, block: int, failures: int) -> int:
        """Store the number of failures of a block in its set; returns those of the whole set."""
        update = Update(self._set_key(step, set_of(block))).raise_to(failures, f"f{block}")
        try:
            item = self._table.update(update, returns="ALL_NEW")
        except ConditionFailed as known:
            item = known.old or {}
        return sum(value for key, value in item.items() if key[0] == "f" and key[1:].isdigit())

    def open_blocks_of_set(self, step: StepRow, number: int) -> set[int]:
        item = self._table.get(self._set_key(step, number)) or {}
        return {int(member) for member in item.get("open", ())}

    def put_attempts(self, attempts: Iterable[tuple[StepRow, int, dict[str, Any]]]) -> None:
        """Store reports on attempts: `(step, rank, {"attempt": n, …})`."""
        items: dict[str, Item] = {}
        for step, rank, attempt in attempts:
            report = attempt["attempt"], attempt["worker"], attempt.get("outcome", "")
            key = keys.attempt(step.job_id, step.run, step.index, rank, *report)
            items[f"{key}"] = {**key, "attempt": json.dumps(attempt)}
        self._table.batch_put(list(items.values()))

    def put_outputs(self, outputs: Iterable[tuple[StepRow, int, int, TaskOutput]]) -> None:
        """Store outputs of attempts; only that of the successful attempt is used."""
        items: dict[str, Item] = {}
        for step, rank, attempt, kept in outputs:
            key = keys.output(step.job_id, step.run, step.index, rank, attempt)
            items[f"{key}"] = {**key, "output": to_json(kept.output), "files": to_json(kept.files)}
        self._table.batch_put(list(items.values()))

    def output(self, step: StepRow, rank: int, attempt: int) -> TaskOutput | None:
        item = self._table.get(keys.output(step.job_id, step.run, step.index, rank, attempt))
        return _output(item) if item else None

    def outputs(self, step: StepRow) -> dict[tuple[int, int], TaskOutput]:
        """All outputs of a step in its run, by rank and attempt."""
        found: dict[tuple[int, int], TaskOutput] = {}
        for number in range(set_count(step.total)):
            partition = keys.partition_of(self._set_key(step, number))
            for item in self._table.query(partition, prefix=keys.OUTPUTS, consistent=True):
                found[keys.parse_output(item)] = _output(item)
        return found

    def attempts(self, step: StepRow, rank: int) -> list[dict[str, Any]]:
        partition = keys.partition_of(self._set_key(step, set_of(block_of(rank))))
        items = self._table.query(partition, prefix=keys.attempts_of(rank), consistent=True)
        return [json.loads(item["attempt"]) for item in items]

    @staticmethod
    def _set_key(step: StepRow, number: int) -> keys.Key:
        return keys.block_set(step.job_id, step.run, step.index, number)


def _output(item: Item) -> TaskOutput:
    return TaskOutput(json.loads(item["output"]), json.loads(item.get("files", "[]")))


def _slot(rank: int) -> str:
    return str(rank % 64)


def _ends(item: Item) -> Counter[TaskState]:
    return Counter({state: item.get(name, 0) for name, state in _ENDS.items()})


def _states(step: StepRow, item: Item) -> Counter[TaskState]:
    """The states in a block's row; tasks without an entry count only if the block is swept."""
    entries = [value for name, value in item.items() if name.isdigit()]
    found = Counter(map(state_of, entries))
    if "swept" in item:
        found[TaskState.KILLED] += block_size(step.total, keys.parse_block(item)) - len(entries)
    return found


def _block(total: int, number: int, item: Item) -> Block:
    shards = {int(name): Shard.decode(value) for name, value in item.items() if name.isdigit()}
    return Block(number, block_size(total, number), shards, swept="swept" in item)
