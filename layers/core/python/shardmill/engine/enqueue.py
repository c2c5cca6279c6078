"""Sending the messages of tasks to the lanes of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardmill.aws.observe import logger
from shardmill.aws.queues import RESEND, Ticket, lane_of
from shardmill.engine.crew import group_rows, need_of, served
from shardmill.engine.errors import GroupNotFound
from shardmill.engine.mill import STEP_CACHE_MS, Mill
from shardmill.model.blocks import BLOCK_SIZE, Block, block_of, block_size
from shardmill.store.rows import StepRow


def lease_time(mill: Mill, step: StepRow, now: int) -> int:
    """How long a lease of a step's tasks holds without a sign of life, in milliseconds."""
    groups = group_rows(mill, step.groups, now)
    return 1000 * max((group.lease_seconds for group in groups.values()), default=60)


def seconds_until(moment: int, now: int) -> int:
    return max(0, -(-(moment - now) // 1000))


def queues_of(mill: Mill, step: StepRow, now: int, *, only: Sequence[str] | None = None) -> list[str]:
    """The lanes that a step's messages go to: of its groups, those that somebody serves, if any."""
    rows = group_rows(mill, step.groups, now)
    groups = [rows[name] for name in only or step.sent_to or step.groups if name in rows]
    if len(groups) > 1:
        need = need_of(step)
        groups = [group for group in groups if served(mill, group, need, now)] or groups
    queues = [group.queues[lane_of(step.priority)] for group in groups]
    if not queues:
        raise GroupNotFound(
            f"none of the worker groups of step {step.name!r} exists: {', '.join(step.groups)}"
        )
    return queues


def send(
    mill: Mill,
    step: StepRow,
    ranks: Iterable[int],
    now: int,
    *,
    delay: int = 0,
    to: Sequence[str] | None = None,
) -> None:
    """Send one message a task, spread over the groups of the step, or over those given."""
    key = (step.job_id, step.run, step.index)
    send_to(mill, queues_of(mill, step, now, only=to), key, step.gen, ranks, delay=delay)


def send_if_possible(mill: Mill, step: StepRow, ranks: Sequence[int], now: int, *, delay: int = 0) -> None:
    """Send messages after the rows were written: if their group is gone, the tick ends the step."""
    try:
        if ranks:
            send(mill, step, ranks, now, delay=delay)
    except GroupNotFound as gone:
        logger.warning(str(gone), extra={"action": "enqueue", "jobId": step.job_id, "step": step.name})


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
    return following if following < step.total and step.opened and not step.stopping else None


def send_open(mill: Mill, step: StepRow, now: int, *, last: bool = True) -> int:
    """Send the message of every task whose turn it is and that has not ended; how many there were.

    `last`: nobody needs to do it once more for this generation.
    """
    ranks = list(open_ranks(step, {block.number: block for block in mill.shards.open_blocks(step)}))
    send(mill, step, ranks, now)
    if last:
        mill.jobs.resent(step)
    return len(ranks)


def open_ranks(step: StepRow, open_blocks: Mapping[int, Block]) -> Iterator[int]:
    """The tasks whose turn it is and that have not ended; a block that is not open has ended as a whole."""

    def ended(rank: int) -> bool:
        block = open_blocks.get(block_of(rank))
        return block is None or block[rank].state.ended

    for number, block in open_blocks.items():
        first = number * BLOCK_SIZE
        if first >= step.window and _far_off(block, open_blocks, first - step.window):
            continue
        for rank in range(first, first + block_size(step.total, number)):
            if not ended(rank) and (rank < step.window or ended(rank - step.window)):
                yield rank


def _far_off(block: Block, open_blocks: Mapping[int, Block], turn: int) -> bool:
    """Whether nobody touched a block, nor those whose ends bring its turn: true of most of a large step."""
    before = [open_blocks.get(block_of(turn)), open_blocks.get(block_of(turn + BLOCK_SIZE - 1))]
    return all(each is not None and not each.shards and not each.swept for each in (block, *before))


def send_again(mill: Mill, step: StepRow, now: int) -> None:
    """Have the open tasks of a step sent anew, under its present generation, by whoever gets to it first.

    Not at once: a report that still goes by the step's older row may be sending the next tasks by it.
    """
    key = (step.job_id, step.run, step.index)
    delay = STEP_CACHE_MS // 1000 + 1
    send_to(mill, queues_of(mill, step, now)[:1], key, step.gen, [RESEND], delay=delay)
