"""The window of a step: the maximum number of its tasks that are queued or running at a time.

The tasks `r`, `r + window`, `r + 2 window` … form a line, and the end of one sends the next. Tasks may end
out of order: a rerun kept some, a user forced one, or the window was changed. So the next task of a line is
the first that has not ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from shardmill.engine.mill import Mill
from shardmill.model.blocks import BLOCK_SIZE, Block, block_of, set_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.table import MAX_BATCH


def next_in_line(step: StepRow, rank: int) -> int | None:
    """The next task in the line of this one; None at its end, or if the step sends no tasks."""
    following = rank + step.window
    return following if following < step.total and step.opened and not step.stopping else None


def sendable(step: StepRow, open_blocks: Mapping[int, Block]) -> Iterator[int]:
    """The first open task of each line, and the running tasks. All tasks of other blocks have ended."""
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


def first_open(mill: Mill, step: StepRow, lines: range) -> list[int]:
    """The first open task of each of these lines. Of the open blocks, only those that hold them are read."""
    tasks = _OpenTasks(mill, step)
    found: list[int] = []
    missing = [line for line in lines if line < step.window]
    for start in range(0, step.total, step.window):
        if not missing:
            break
        tasks.read_ahead(range(start, step.total, step.window), missing[0], missing[-1])
        ranks = [start + line for line in missing]
        open_ranks = {rank for rank in ranks if rank < step.total and tasks.at(rank) is not None}
        found += sorted(open_ranks)
        missing = [rank - start for rank in ranks if rank not in open_ranks]
    return found


def possibly_sent(step: StepRow, number: int, touched: Collection[int]) -> bool:
    """Whether a message may have been sent for an untouched block.

    `touched`: the blocks before it in which a task was leased or ended; see `blocks_before`.
    """
    first = number * BLOCK_SIZE
    return first < step.window or not _one_window_before(step, number).isdisjoint(touched)


def blocks_before(step: StepRow, numbers: range) -> list[int]:
    """The blocks before these with the tasks whose ends send theirs."""
    found = {before for number in numbers for before in _one_window_before(step, number)}
    return sorted(before for before in found if 0 <= before < numbers.start)


def _one_window_before(step: StepRow, number: int) -> set[int]:
    first = number * BLOCK_SIZE - step.window
    return {block_of(first), block_of(first + BLOCK_SIZE - 1)}


def next_after(mill: Mill, step: StepRow, ended: Iterable[int]) -> list[int]:
    """The tasks to send after these have ended: the next of their lines, unless they run already."""
    tasks = _OpenTasks(mill, step)
    found: set[int] = set()
    for rank in ended:
        following = next_in_line(step, rank)
        if following is None or tasks.any_before(rank):
            continue
        while following is not None and tasks.at(following) is None:
            following = next_in_line(step, following)
        if following is not None and tasks.at(following) is TaskState.READY:
            found.add(following)
    return sorted(found)


class _OpenTasks:
    """Reads the open blocks of a step, each once and on demand."""

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

    def read_ahead(self, starts: Iterable[int], first: int, last: int) -> None:
        """Read the open blocks with the ranks `start + first` to `start + last`, as many as one call returns.

        Does nothing if those of the first start are known.
        """
        wanted: dict[int, None] = {}
        for at, start in enumerate(starts):
            end = min(start + last, self._step.total - 1)
            numbers = range(block_of(start + first), block_of(end) + 1)
            unread = [n for n in numbers if n in self._open(set_of(n)) and n not in self._blocks]
            if (at == 0 and not unread) or (wanted and len(wanted) + len(unread) > MAX_BATCH):
                break
            wanted |= dict.fromkeys(unread)
        self._read(wanted)

    def any_before(self, rank: int) -> bool:
        """Whether an earlier task in the line of this one has not ended."""
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
