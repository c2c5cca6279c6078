"""DynamoDB keys of a step's tasks: blocks, sets of blocks, and the reports and outputs of attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.model.blocks import block_of
from shardmill.store.keys import Key, Partition, partition_of, prefix

_BLOCK = "b"
_OUTPUT = "o"
TASK_PARTITIONS = 32
"""In how many partitions the blocks of a step lie, consecutive ones in different partitions."""


def _tasks(job_id: str, run: int, step: int, part: str) -> str:
    return f"T#{job_id}#{run}#{step}#{part}"


def _tasks_of_block(job_id: str, run: int, step: int, number: int) -> str:
    """The partition of a block, and of the attempts and outputs of its tasks.

    DynamoDB limits the writes to a partition. The tasks that a step works on at a time are neighbours, so
    neighbouring blocks are kept apart.
    """
    return _tasks(job_id, run, step, str(number % TASK_PARTITIONS))


def task_partitions(job_id: str, run: int, step: int, blocks: int) -> list[Partition]:
    """All partitions with blocks, attempts and outputs of a step with this number of blocks."""
    numbers = range(min(blocks, TASK_PARTITIONS))
    return [partition_of(block(job_id, run, step, number)) for number in numbers]


def block_set(job_id: str, run: int, step: int, number: int) -> Key:
    return {"pk": _tasks(job_id, run, step, f"s{number}"), "sk": "set"}


def parse_set(item: Mapping[str, Any]) -> int:
    """The number of a set."""
    return int(item["pk"].rsplit("#s", 1)[1])


def block(job_id: str, run: int, step: int, number: int) -> Key:
    return {"pk": _tasks_of_block(job_id, run, step, number), "sk": f"{_BLOCK}{number:05d}"}


BLOCKS = prefix(_BLOCK)


def parse_block(item: Mapping[str, Any]) -> int:
    """The number of a block."""
    return int(item["sk"].removeprefix(_BLOCK))


def attempt(job_id: str, run: int, step: int, rank: int, attempt: int, worker: str, outcome: str) -> Key:
    """A report on an attempt; its key has the worker and outcome, so a late or false report overwrites
    nothing."""
    partition = _tasks_of_block(job_id, run, step, block_of(rank))
    return {"pk": partition, "sk": f"{_attempts(rank)}{attempt:05d}#{worker}#{outcome}"}


def attempts_of(rank: int) -> tuple[str, str]:
    return prefix(_attempts(rank))


def _attempts(rank: int) -> str:
    return f"a{rank:06d}#"


def output(job_id: str, run: int, step: int, rank: int, attempt: int) -> Key:
    partition = _tasks_of_block(job_id, run, step, block_of(rank))
    return {"pk": partition, "sk": f"{_OUTPUT}{rank:06d}#{attempt:05d}"}


OUTPUTS = prefix(_OUTPUT)


def parse_output(item: Mapping[str, Any]) -> tuple[int, int]:
    """The rank and the attempt of an output."""
    rank, attempt = item["sk"].removeprefix(_OUTPUT).split("#")
    return int(rank), int(attempt)
