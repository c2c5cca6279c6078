"""The blocks of a step's tasks, and their sets."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice

from shardmill.model.blocks import (
    Block,
    Shard,
    StoredShards,
    block_count,
    block_size,
    blocks_of_set,
    set_count,
    set_of,
    state_of,
)
from shardmill.model.errors import Transient
from shardmill.model.states import TaskState
from shardmill.store import keys
from shardmill.store.rows import StepRow
from shardmill.store.table import ConditionFailed
from shardmill.store.tasks import keys as task_keys
from shardmill.store.tasks.results import TaskResults, partitions_of
from shardmill.store.update import Item, Update

FEW_BLOCKS = 1_024
"""Up to this many blocks are read by key, 100 in a call; more by a query for each partition of the step."""
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
        """The values to add to the step's row when the set is closed."""
        return {**{name: self.ends[state] for name, state in _ENDS.items()}, "compute_ms": self.compute_ms}


class Shards(TaskResults):
    """Blocks and sets, and, by inheritance, the attempts and outputs of tasks."""

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
        update = _change(step, number, expected, wanted, unswept=unswept)
        return self._apply(step, number, update)

    def lease(
        self, step: StepRow, number: int, expected: Mapping[int, Shard | None], leased: Mapping[int, Shard]
    ) -> None:
        """Set shards of a block that is not swept, as `change` does, without reading the block."""
        update = _change(step, number, expected, leased, unswept=True)
        try:
            self._table.update(update)
        except ConditionFailed as failed:
            raise BlockChanged(_block(step.total, number, failed.old or {})) from failed

    def sweep(self, step: StepRow, block: Block, wanted: Mapping[int, Shard]) -> Block:
        """Mark a block so that none of its tasks can be leased, and set the final values of some shards."""
        update = Update(task_keys.block(*step.key, block.number)).set(swept=True)
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
        items = self._table.batch_get([task_keys.block(*step.key, number) for number in wanted])
        by_number = {task_keys.parse_block(item): item for item in items}
        return {number: _block(step.total, number, by_number.get(number, {})) for number in wanted}

    def _in_order(self, step: StepRow, numbers: Sequence[int]) -> Iterator[Block]:
        """The blocks with the given ascending numbers, those without a row included.

        A few blocks are read by their keys, many blocks by one query for each partition, which returns only
        blocks with a row.
        """
        if len(numbers) <= FEW_BLOCKS:
            yield from self.blocks(step, numbers).values()
            return
        rows = heapq.merge(*self._rows_by_partition(step, consistent=True), key=task_keys.parse_block)
        row = next(rows, None)
        for number in numbers:
            while row is not None and task_keys.parse_block(row) < number:
                row = next(rows, None)
            there = row is not None and task_keys.parse_block(row) == number
            yield _block(step.total, number, row if row is not None and there else {})

    def _rows_by_partition(self, step: StepRow, *, consistent: bool) -> list[Iterator[Item]]:
        return [
            self._table.query(partition, prefix=task_keys.BLOCKS, consistent=consistent)
            for partition in partitions_of(step)
        ]

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
            if step.two_levels:
                parts = self.sets(step, members).values()
                for part in parts:
                    found[step.index].update(part.ends)
                members = _open_in(parts)
            opened.append((step, members))
        for step, item in self._touched(opened):
            found[step.index].update(_states(step, item))
        for step in steps:
            found[step.index][TaskState.READY] += step.total - found[step.index].total()
        return found

    def _touched(self, opened: Iterable[tuple[StepRow, Set[int]]]) -> Iterator[tuple[StepRow, Item]]:
        """The existing rows of the open blocks of several steps; steps with few blocks share a batch."""
        few: dict[tuple[str, ...], tuple[keys.Key, StepRow]] = {}
        for step, numbers in opened:
            if len(numbers) <= FEW_BLOCKS:
                places = [task_keys.block(*step.key, number) for number in numbers]
                few |= {tuple(place.values()): (place, step) for place in places}
                continue
            for item in chain.from_iterable(self._rows_by_partition(step, consistent=False)):
                if task_keys.parse_block(item) in numbers:
                    yield step, item
        for item in self._table.batch_get([place for place, _ in few.values()], consistent=False):
            yield few[tuple(keys.key_of(item).values())][1], item

    def sets(self, step: StepRow, numbers: Iterable[int], *, consistent: bool = False) -> dict[int, BlockSet]:
        """Sets of a large step, by their numbers."""
        places = [self._set_key(step, number) for number in numbers]
        items = self._table.batch_get(places, consistent=consistent)
        parts = [
            BlockSet(frozenset(map(int, item.get("open", ()))), _ends(item), item.get("compute_ms", 0))
            for item in items
        ]
        return {task_keys.parse_set(item): part for item, part in zip(items, parts, strict=True)}

    def all_blocks(self, step: StepRow) -> Iterator[Block]:
        return self._in_order(step, range(block_count(step.total)))

    def open_blocks(self, step: StepRow) -> Iterator[Block]:
        """The open blocks of a step in order, those without a row included."""
        members = {int(member) for member in step.open}
        if step.two_levels:
            members = _open_in(self.sets(step, members, consistent=True).values())
        return self._in_order(step, sorted(members))

    def make_sets(self, step: StepRow) -> None:
        """Write the sets of a large step, unless they exist."""
        for number in range(set_count(step.total)):
            members = {str(block) for block in blocks_of_set(step.total, number)}
            try:
                self._table.put_new({**self._set_key(step, number), "open": members})
            except ConditionFailed:
                continue

    def purge(self, step: StepRow, *, most: int) -> int:
        """Delete up to `most` rows of a step's tasks (blocks, attempts, outputs); returns how many.

        The sets of a large step are deleted with the last of them.
        """
        deleted = 0
        for partition in partitions_of(step):
            rows = self._table.query(partition, only=keys.KEY, consistent=True, limit=most)
            items = islice(rows, most - deleted)
            found = [keys.key_of(item) for item in items]
            self._table.batch_delete(found)
            deleted += len(found)
            if deleted >= most:
                return deleted
        if step.two_levels:
            self._table.batch_delete([self._set_key(step, number) for number in range(set_count(step.total))])
        return deleted

    def put_block(self, step: StepRow, block: Block) -> None:
        """Write a block of a new run, unless it exists: its tasks may have changed since."""
        shards = {_slot(rank): shard.encode() for rank, shard in block.shards.items()}
        try:
            self._table.put_new({**task_keys.block(*step.key, block.number), **shards})
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
        """Store the number of failures of a block in its set; returns the failures of the whole set."""
        update = Update(self._set_key(step, set_of(block))).raise_to(failures, f"f{block}")
        try:
            item = self._table.update(update, returns="ALL_NEW")
        except ConditionFailed as known:
            item = known.old or {}
        return sum(value for key, value in item.items() if key[0] == "f" and key[1:].isdigit())

    def open_blocks_of_set(self, step: StepRow, number: int) -> set[int]:
        item = self._table.get(self._set_key(step, number)) or {}
        return {int(member) for member in item.get("open", ())}

    @staticmethod
    def _set_key(step: StepRow, number: int) -> keys.Key:
        return task_keys.block_set(*step.key, number)


def _open_in(parts: Iterable[BlockSet]) -> set[int]:
    return {number for part in parts for number in part.open}


def _change(
    step: StepRow,
    number: int,
    expected: Mapping[int, Shard | None],
    wanted: Mapping[int, Shard],
    *,
    unswept: bool,
) -> Update:
    """An update of shards of a block, on condition that they have their expected values."""
    update = Update(task_keys.block(*step.key, number))
    update.set_all({_slot(rank): shard.encode() for rank, shard in wanted.items()})
    update.if_all_equal({_slot(rank): shard.encode() if shard else None for rank, shard in expected.items()})
    return update.if_equal(swept=None) if unswept else update


def _slot(rank: int) -> str:
    return str(rank % 64)


def _ends(item: Item) -> Counter[TaskState]:
    return Counter({state: item.get(name, 0) for name, state in _ENDS.items()})


def _states(step: StepRow, item: Item) -> Counter[TaskState]:
    """The states in a block's row; tasks without an entry count only if the block is swept."""
    entries = [value for name, value in item.items() if name.isdigit()]
    found = Counter(map(state_of, entries))
    if "swept" in item:
        found[TaskState.KILLED] += block_size(step.total, task_keys.parse_block(item)) - len(entries)
    return found


def _block(total: int, number: int, item: Item) -> Block:
    entries = {int(name): value for name, value in item.items() if name.isdigit()}
    return Block(number, block_size(total, number), StoredShards(entries), swept="swept" in item)
