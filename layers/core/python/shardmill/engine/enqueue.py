"""Sending the messages of tasks to the lanes of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardmill.aws.queues import Ticket, lane_of
from shardmill.engine.errors import GroupNotFound
from shardmill.engine.mill import Mill
from shardmill.model.blocks import block_of
from shardmill.store.rows import GroupRow, StepRow


def group_rows(mill: Mill, names: Iterable[str], now: int) -> dict[str, GroupRow]:
    def read(missing: list[str]) -> dict[str, GroupRow]:
        return {name: row for name in missing if (row := mill.groups.get(name))}

    return mill.recent_groups.get(names, read, now)


def lease_time(mill: Mill, step: StepRow, now: int) -> int:
    """How long a lease of a step's tasks holds without a sign of life, in milliseconds."""
    groups = group_rows(mill, step.groups, now)
    return 1000 * max((group.lease_seconds for group in groups.values()), default=60)


def seconds_until(moment: int, now: int) -> int:
    return max(0, -(-(moment - now) // 1000))


def queues_of(mill: Mill, step: StepRow, now: int) -> list[str]:
    """The lanes that a step's messages go to, one a group."""
    groups = group_rows(mill, step.groups, now)
    queues = [groups[name].queues[lane_of(step.priority)] for name in step.groups if name in groups]
    if not queues:
        raise GroupNotFound(
            f"none of the worker groups of step {step.name!r} exists: {', '.join(step.groups)}"
        )
    return queues


def send(mill: Mill, step: StepRow, ranks: Iterable[int], now: int, *, delay: int = 0) -> None:
    """Send one message a task, spread over the groups of the step."""
    key = (step.job_id, step.run, step.index)
    send_to(mill, queues_of(mill, step, now), key, step.gen, ranks, delay=delay)


def send_to(
    mill: Mill,
    queues: Sequence[str],
    step_key: tuple[str, int, int],
    gen: int,
    ranks: Iterable[int],
    *,
    delay: int = 0,
) -> None:
    tickets: dict[str, list[Ticket]] = {}
    for rank in ranks:
        tickets.setdefault(queues[rank % len(queues)], []).append(Ticket(*step_key, gen, rank))
    for queue, listed in tickets.items():
        mill.queues.send(queue, listed, delay=delay)


def next_of(step: StepRow, rank: int) -> int | None:
    """The task whose turn comes when this one ends: so a step never has more than its window alive."""
    following = rank + step.window
    return following if following < step.total and not step.stopping else None


def send_open(mill: Mill, step: StepRow, now: int) -> int:
    """Send the message of every task whose turn it is and that has not ended; how many there were."""
    blocks = {block.number: block for block in mill.shards.all_blocks(step)}

    def ended(rank: int) -> bool:
        return blocks[block_of(rank)][rank].state.ended

    ranks = [
        rank
        for rank in range(step.total)
        if not ended(rank) and (rank < step.window or ended(rank - step.window))
    ]
    send(mill, step, ranks, now)
    return len(ranks)
