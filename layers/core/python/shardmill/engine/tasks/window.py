"""Whose turn it is: of a step's tasks, no more than its window are alive.

The tasks `r`, `r + window`, `r + 2 window` … stand in one line, and the end of one brings the next. Tasks end
out of line where a rerun kept some, where somebody ended one by hand, or where the window is another by now:
the first of a line that has not ended has the turn, whatever has ended behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from shardmill.engine.mill import Mill
from shardmill.model.blocks import BLOCK_SIZE, Block, block_of, set_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow


def next_of(step: StepRow, rank: int) -> int | None:
    """The task that stands behind this one in its line, if its turn may come."""
    following = rank + step.window
    return following if following < step.total and step.opened and not step.stopping else None


def open_ranks(step: StepRow, open_blocks: Mapping[int, Block]) -> Iterator[int]:
    """The tasks that have their turn, and those that run; a block that is not open has ended as a whole."""
    taken: set[int] = set()
    for number in sorted(open_blocks):
        block = open_blocks[number]
        if len(taken) == step.window and not block.shards:
            continue
        for rank, shard in block.items():
            if shard.state.ended:
                continue
            line = rank % step.window
            if line not in taken or shard.state is TaskState.RUNNING:
                taken.add(line)
                yield rank


def reached(step: StepRow, untouched: Collection[int]) -> Iterator[int]:
    """The blocks, of those that nobody touched, of which a message may be out."""
    for number in untouched:
        first = number * BLOCK_SIZE
        before = {block_of(first - step.window), block_of(first + BLOCK_SIZE - 1 - step.window)}
        if first < step.window or not before.issubset(untouched):
            yield number


def after(mill: Mill, step: StepRow, ended: Iterable[int]) -> list[int]:
    """The tasks that have their turn after these have ended, and that nobody runs yet."""
    look = _Look(mill, step)
    found: set[int] = set()
    for rank in ended:
        following = next_of(step, rank)
        if following is None or look.any_before(rank):
            continue
        while following is not None and look.at(following) is None:
            following = next_of(step, following)
        if following is not None and look.at(following) is TaskState.READY:
            found.add(following)
    return sorted(found)


class _Look:
    """Reads the blocks of a step that are open, each once and only if it matters."""

    def __init__(self, mill: Mill, step: StepRow) -> None:
        self._mill = mill
        self._step = step
        self._blocks: dict[int, Block] = {}
        self._sets: dict[int, set[int]] = {} if step.two_levels else {0: set(map(int, step.open))}

    def at(self, rank: int) -> TaskState | None:
        """The state of a task; None if it has ended."""
        number = block_of(rank)
        if number not in self._open(set_of(number)):
            return None
        self._read([number])
        state = self._blocks[number][rank].state
        return None if state.ended else state

    def any_before(self, rank: int) -> bool:
        """Whether a task has not ended that stands before this one in its line."""
        last = block_of(rank)
        sets = range(set_of(last) + 1)
        numbers = [number for each in sets for number in sorted(self._open(each)) if number <= last]
        self._read(numbers)
        return any(
            not shard.state.ended
            for number in numbers
            for other, shard in self._blocks[number].items()
            if other < rank and (rank - other) % self._step.window == 0
        )

    def _read(self, numbers: Iterable[int]) -> None:
        missing = [number for number in numbers if number not in self._blocks]
        if missing:
            self._blocks |= self._mill.shards.blocks(self._step, missing)

    def _open(self, set_number: int) -> set[int]:
        if set_number not in self._sets:
            there = str(set_number) in self._step.open
            self._sets[set_number] = (
                self._mill.shards.open_blocks_of_set(self._step, set_number) if there else set()
            )
        return self._sets[set_number]
