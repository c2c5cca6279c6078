"""The layout of a step's tasks in rows: 64 shards in a block, 256 blocks in a set.

The value of a shard is a short string, so that a block stays under 2 KB: DynamoDB bills a write by the size
of the whole row. A shard that was never leased has no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from shardmill.model.states import TaskState

BLOCK_SIZE = 64
SET_SIZE = 256
MAX_SHARDS = 1_000_000
MAX_ITEMS = 10_000
RANGE_SIZE = 1_000
MAX_SENT_AT_OPENING = 100
"""A larger window is sent by the state machine, several ranges of tasks at a time."""

LETTERS = {
    TaskState.READY: "Q",
    TaskState.RUNNING: "R",
    TaskState.SUSPENDED: "P",
    TaskState.SUCCESS: "S",
    TaskState.FAILED: "F",
    TaskState.KILLED: "K",
}
_STATES = {letter: state for state, letter in LETTERS.items()}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Shard:
    """The state of one task in its block.

    `time`, in milliseconds since 1970, is the earliest start of a READY shard, the time of the lease of a
    RUNNING one, and the start of the last attempt of an ended one. `span` is the duration of that attempt.
    While a shard waits for its next attempt, `leased` and `ended` are the times of the last one.
    """

    state: TaskState = TaskState.READY
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    rejections: int = 0
    worker: str = ""
    time: int = 0
    span: int = 0
    leased: int = 0
    ended: int = 0

    @property
    def worker_id(self) -> str:
        """The worker without its session."""
        return self.worker.split(".")[0]

    def evolve(self, **changes: object) -> Shard:
        return replace(self, **changes)  # type: ignore[arg-type]

    def encode(self) -> str:
        counts = (self.failures, self.losses, self.rejections)
        parts = [
            f"{LETTERS[self.state]}{self.attempt}",
            ".".join(map(str, counts)) if any(counts) else "",
            self.worker,
            base36(self.time) if self.time else "",
            base36(self.span) if self.span else "",
            base36(self.leased) if self.leased else "",
            base36(self.ended) if self.ended else "",
        ]
        return "|".join(parts).rstrip("|")

    @classmethod
    def decode(cls, text: str) -> Shard:
        head, counts, worker, time, span, leased, ended = (text.split("|") + [""] * 6)[:7]
        failures, losses, rejections = map(int, counts.split(".")) if counts else (0, 0, 0)
        return cls(
            state=_STATES[head[0]],
            attempt=int(head[1:]),
            failures=failures,
            losses=losses,
            rejections=rejections,
            worker=worker,
            time=int(time, 36) if time else 0,
            span=int(span, 36) if span else 0,
            leased=int(leased, 36) if leased else 0,
            ended=int(ended, 36) if ended else 0,
        )


def state_of(entry: str) -> TaskState:
    """The state of an encoded shard, without decoding the rest."""
    return _STATES[entry[0]]


UNTOUCHED = Shard()
SWEPT = Shard(state=TaskState.KILLED)


class StoredShards(Mapping[int, Shard]):
    """Encoded shards by their place in a block, decoded when they are read: few of a block are."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[int, str]) -> None:
        self._entries = entries

    def __getitem__(self, at: int) -> Shard:
        return Shard.decode(self._entries[at])

    def __contains__(self, at: object) -> bool:
        return at in self._entries

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def states(self) -> Iterator[TaskState]:
        return map(state_of, self._entries.values())


@dataclass(frozen=True, slots=True)
class Block:
    """The shards of a block that have a value; if `swept`, the others are killed and cannot be leased."""

    number: int
    size: int
    shards: Mapping[int, Shard]
    swept: bool = False

    def __getitem__(self, rank: int) -> Shard:
        return self.shards.get(rank % BLOCK_SIZE) or (SWEPT if self.swept else UNTOUCHED)

    def items(self) -> Iterator[tuple[int, Shard]]:
        first = self.number * BLOCK_SIZE
        return ((rank, self[rank]) for rank in range(first, first + self.size))

    def touched(self) -> Iterator[tuple[int, Shard]]:
        """The shards that have a value, by rank."""
        first = self.number * BLOCK_SIZE
        return ((first + at, shard) for at, shard in self.shards.items())

    def _states(self) -> Iterator[TaskState]:
        """The states of the shards that have a value."""
        if isinstance(self.shards, StoredShards):
            return self.shards.states()
        return (shard.state for shard in self.shards.values())

    @property
    def finished(self) -> bool:
        complete = self.swept or len(self.shards) == self.size
        return complete and all(state.ended for state in self._states())

    def counts(self) -> Counter[TaskState]:
        found = Counter(self._states())
        if others := self.size - len(self.shards):
            found[(SWEPT if self.swept else UNTOUCHED).state] += others
        return found

    def last_end(self) -> int:
        """When the last task was reported; 0 if none was leased."""
        return max((shard.time + shard.span for shard in self.shards.values()), default=0)

    def compute_ms(self) -> int:
        return sum(shard.span for shard in self.shards.values())


def block_of(rank: int) -> int:
    return rank // BLOCK_SIZE


def set_of(block: int) -> int:
    return block // SET_SIZE


def block_count(total: int) -> int:
    return -(-total // BLOCK_SIZE)


def block_size(total: int, block: int) -> int:
    return min(BLOCK_SIZE, total - block * BLOCK_SIZE)


def set_count(total: int) -> int:
    return -(-block_count(total) // SET_SIZE)


def blocks_of_set(total: int, number: int) -> range:
    return range(number * SET_SIZE, min((number + 1) * SET_SIZE, block_count(total)))


def two_levels(total: int) -> bool:
    """Whether a step has too many open blocks for its row, and needs sets."""
    return block_count(total) > SET_SIZE


def ranges(count: int) -> list[dict[str, int]]:
    """The ranges of shards that the state machine maps over."""
    return [{"from": at, "to": min(at + RANGE_SIZE, count)} for at in range(0, count, RANGE_SIZE)]


def base36(number: int) -> str:
    if number == 0:
        return "0"
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
