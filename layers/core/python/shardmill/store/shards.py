"""The blocks of a step's tasks, their sets, and what is kept of attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from shardmill.model.blocks import (
    Block,
    Shard,
    block_count,
    block_of,
    block_size,
    blocks_of_set,
    set_count,
    set_of,
)
from shardmill.store import keys
from shardmill.store.rows import StepRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Item, Update

FEW_BLOCKS = 16


class BlockChanged(Exception):
    """A shard of the block had another value than expected."""

    def __init__(self, block: Block) -> None:
        super().__init__(self.__doc__)
        self.block = block


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
        """Give shards of one block new values if each still has the one expected (None: never touched).

        Returns the block as it is then; raises BlockChanged, with the block as it is, and changes nothing,
        if a value differs or, with `unswept`, if the block was swept.
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
        """Mark a block so that nothing in it can be leased again, and give some shards their end."""
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
        """The named blocks, those without a row included."""
        wanted = list(numbers)
        items = self._table.batch_get([keys.block(step.job_id, step.run, step.index, n) for n in wanted])
        by_number = {int(item["sk"][1:]): item for item in items}
        return {number: _block(step.total, number, by_number.get(number, {})) for number in wanted}

    def blocks_of_set(self, step: StepRow, number: int) -> Iterator[Block]:
        """Every block of a set in order, those without a row included."""
        partition = keys.task_partition(step.job_id, step.run, step.index, number)
        items = self._table.query(("pk", partition), prefix=("sk", "b"), consistent=True)
        by_number = {int(item["sk"][1:]): item for item in items}
        for block in blocks_of_set(step.total, number):
            yield _block(step.total, block, by_number.get(block, {}))

    def blocks_of_steps(self, steps: Sequence[StepRow]) -> Iterator[tuple[int, list[Block]]]:
        """Every block of several steps of a Job, by step; the small ones are read together."""
        small = [step for step in steps if block_count(step.total) <= FEW_BLOCKS]
        keys_of = {
            (key["pk"], key["sk"]): (step.index, number)
            for step in small
            for number in range(block_count(step.total))
            for key in [keys.block(step.job_id, step.run, step.index, number)]
        }
        items = self._table.batch_get([{"pk": pk, "sk": sk} for pk, sk in keys_of])
        rows = {keys_of[item["pk"], item["sk"]]: item for item in items}
        for step in steps:
            if step in small:
                numbers = range(block_count(step.total))
                yield step.index, [_block(step.total, n, rows.get((step.index, n), {})) for n in numbers]
            else:
                yield step.index, list(self.all_blocks(step))

    def all_blocks(self, step: StepRow) -> Iterator[Block]:
        for number in range(set_count(step.total)):
            yield from self.blocks_of_set(step, number)

    def make_sets(self, step: StepRow) -> None:
        """Write the second level of open blocks that a large step needs, if it is not there yet."""
        for number in range(set_count(step.total)):
            members = {str(block) for block in blocks_of_set(step.total, number)}
            try:
                self._table.put_new({**self._set_key(step, number), "open": members})
            except ConditionFailed:
                continue

    def close_in_set(self, step: StepRow, block: int, counts: dict[str, int]) -> tuple[bool, dict[str, int]]:
        """Strike a finished block off its set; whether the set is empty now, and its counts."""
        update = Update(self._set_key(step, set_of(block))).delete("open", {str(block)}).add(**counts)
        try:
            item = self._table.update(update.if_contains("open", str(block)), returns="ALL_NEW")
        except ConditionFailed as struck:
            item = struck.old or {}
        return not item.get("open"), {name: item.get(name, 0) for name in counts}

    def count_failures_in_set(self, step: StepRow, block: int, failures: int) -> int:
        """Remember a block's failures in its set; the failures of the whole set."""
        update = Update(self._set_key(step, set_of(block))).raise_to(failures, f"f{block}")
        try:
            item = self._table.update(update, returns="ALL_NEW")
        except ConditionFailed as known:
            item = known.old or {}
        return sum(value for key, value in item.items() if key[0] == "f" and key[1:].isdigit())

    def open_blocks_of_set(self, step: StepRow, number: int) -> set[int]:
        item = self._table.get(self._set_key(step, number)) or {}
        return {int(member) for member in item.get("open", ())}

    def keep_attempts(self, attempts: Iterable[tuple[StepRow, int, dict[str, Any]]]) -> None:
        """Keep what there is to say of attempts: `(step, rank, {"attempt": n, …})`."""
        items: dict[str, Item] = {}
        for step, rank, attempt in attempts:
            told = attempt["attempt"], attempt["worker"], attempt.get("outcome", "")
            key = keys.attempt(step.job_id, step.run, step.index, rank, *told)
            items[f"{key}"] = {**key, "attempt": json.dumps(attempt)}
        self._table.batch_put(list(items.values()))

    def attempts(self, step: StepRow, rank: int) -> list[dict[str, Any]]:
        partition = keys.task_partition(step.job_id, step.run, step.index, set_of(block_of(rank)))
        items = self._table.query(("pk", partition), prefix=("sk", keys.attempts_of(rank)), consistent=True)
        return [json.loads(item["attempt"]) for item in items]

    @staticmethod
    def _set_key(step: StepRow, number: int) -> keys.Key:
        return keys.block_set(step.job_id, step.run, step.index, number)


def _slot(rank: int) -> str:
    return str(rank % 64)


def _block(total: int, number: int, item: Item) -> Block:
    shards = {int(name): Shard.decode(value) for name, value in item.items() if name.isdigit()}
    return Block(number, block_size(total, number), shards, swept="swept" in item)
