"""Send the messages of tasks to the lanes of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import ceil

from shardmill.aws.observability import logger
from shardmill.aws.queues import BATCH, MAX_DELAY_SECONDS, RESEND, Message, Ticket
from shardmill.engine.continuation import Budget
from shardmill.engine.errors import GroupNotFound
from shardmill.engine.groups.lanes import queue_for
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import STEP_CACHE_MS, Mill
from shardmill.engine.tasks import window
from shardmill.model.blocks import block_count
from shardmill.store.rows import StepRow
from shardmill.store.shards import FEW_BLOCKS
from shardmill.store.table import MAX_BATCH

MAX_SENT_IN_REQUEST = 1_000
"""More messages are not sent by a request that raised a generation, but by the worker that it asks to."""
MAX_SENT_IN_SLICE = 5_000
"""The messages that one call sends again; SQS takes ten in a call, and a request has 29 seconds."""
MAX_HIDDEN_WAIT_SECONDS = 30
"""Up to here, hiding a message is cheaper than sending and deleting one, and few are hidden at a time."""


def lease_time(mill: Mill, step: StepRow, now: int) -> int:
    """How long a lease of a step's tasks is valid without a heartbeat, in milliseconds."""
    groups = group_rows(mill, step.groups, now)
    return 1000 * max((group.lease_seconds for group in groups.values()), default=60)


def seconds_until(moment: int, now: int) -> int:
    return max(0, -(-(moment - now) // 1000))


def queues_of(mill: Mill, step: StepRow, now: int, *, only: Sequence[str] | None = None) -> list[str]:
    """The queues for a step's messages: those of its groups with a capable worker, or else of all."""
    rows = group_rows(mill, step.groups, now)
    groups = [rows[name] for name in only or step.sent_to or step.groups if name in rows]
    if len(groups) > 1:
        need = required_program(step)
        groups = [group for group in groups if has_capable_worker(mill, group, need, now)] or groups
    queues = [queue_for(mill, group, step.priority) for group in groups]
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
    """Send one message for each task, distributed over the groups of the step or over `to`."""
    key = (step.job_id, step.run, step.index)
    send_to(mill, queues_of(mill, step, now, only=to), key, step.gen, ranks, delay=delay)


def send_if_possible(mill: Mill, step: StepRow, ranks: Sequence[int], now: int, *, delay: int = 0) -> None:
    """Send messages after their rows were written. If the groups do not exist, the tick ends the step."""
    try:
        if ranks:
            send(mill, step, ranks, now, delay=delay)
    except GroupNotFound as error:
        logger.warning(
            f"{error}; the next tick ends the step",
            extra={"action": "enqueue", "jobId": step.job_id, "step": step.name},
        )


def postpone(mill: Mill, step: StepRow, waits: Iterable[tuple[int, Message, int]], now: int) -> None:
    """Deliver the messages of waiting tasks (rank, message, seconds) again when they are due.

    A hidden message is in flight, and SQS allows 120,000 of these in a queue; a delayed one is not. So a task
    with a long wait gets a new, delayed message, and then its old one is deleted. A wait that is longer than
    SQS delays a message is postponed again.
    """
    hidden: list[tuple[Message, int]] = []
    replaced: list[Message] = []
    delayed: dict[int, list[int]] = {}
    for rank, message, seconds in waits:
        if seconds <= MAX_HIDDEN_WAIT_SECONDS:
            hidden.append((message, seconds))
        else:
            delayed.setdefault(min(seconds, MAX_DELAY_SECONDS), []).append(rank)
            replaced.append(message)
    if hidden:
        mill.queues.hide(hidden)
    for seconds, ranks in delayed.items():
        send_if_possible(mill, step, ranks, now, delay=seconds)
    if replaced:
        mill.queues.delete(replaced)


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


def send_range(
    mill: Mill, queues: Sequence[str], step_key: tuple[str, int, int], gen: int, ranks: range
) -> int:
    """Send the first messages of the lines of `ranks` when a step opens. Returns the number of messages."""
    sent = list(ranks) if step_key[1] == 1 else first_open(mill, step_key, ranks)
    send_to(mill, queues, step_key, gen, sent)
    return len(sent)


def send_open(mill: Mill, step: StepRow, now: int, *, start: int = 0, last: bool = True) -> int:
    """Send a message for each open task within the window, from a rank on. Returns the number of messages.

    After `MAX_SENT_IN_SLICE` of them, one more message asks its receiver to send the rest.
    `last`: mark the generation as sent with its last message, so that it is not sent again.
    """
    open_blocks = {block.number: block for block in mill.shards.open_blocks(step)}
    ranks = [rank for rank in window.sendable(step, open_blocks) if rank >= start]
    sent, rest = ranks[:MAX_SENT_IN_SLICE], ranks[MAX_SENT_IN_SLICE:]
    send(mill, step, sent, now)
    if rest:
        send_to(mill, queues_of(mill, step, now)[:1], step.key, step.gen, [RESEND - rest[0]])
    elif last:
        mill.jobs.mark_sent(step, now=now)
    return len(sent)


def send_new_generation(mill: Mill, step: StepRow, now: int, budget: Budget) -> None:
    """Send the open tasks of a step whose generation was raised.

    They are requested for a moment later; few are also sent immediately.
    """
    request_resend(mill, step, now)
    budget.spend()
    if step.window <= MAX_SENT_IN_REQUEST and block_count(step.total) <= FEW_BLOCKS:
        sent = send_open(mill, step, now, last=False)
        budget.spend(ceil(sent / BATCH) + ceil(block_count(step.total) / MAX_BATCH))


def first_open(mill: Mill, step_key: tuple[str, int, int], ranks: range) -> list[int]:
    """The first open tasks of the lines of `ranks`, in a rerun that kept some tasks."""
    step = mill.jobs.step(*step_key)
    if not step or not step.opened:
        return []
    return window.first_open(mill, step, ranks)


def request_resend(mill: Mill, step: StepRow, now: int) -> None:
    """Request that the open tasks of a step are sent again, with its current generation.

    Delayed, because a report that uses a cached row of the step may still send tasks with the old one.
    """
    key = (step.job_id, step.run, step.index)
    delay = STEP_CACHE_MS // 1000 + 1
    send_to(mill, queues_of(mill, step, now)[:1], key, step.gen, [RESEND], delay=delay)


def request_wake(mill: Mill, step: StepRow, now: int) -> None:
    """Request that a step which was stopped before its execution waits is woken a moment later."""
    with suppress(GroupNotFound):  # the tick wakes it
        request_resend(mill, step, now)


def send_checks(mill: Mill, step: StepRow, queues: Iterable[str], now: int) -> None:
    """Send a message without a task to each of these queues of a step; see `delivery.check`."""
    for queue in queues:
        mill.queues.send(queue, [Ticket.check(*step.key, step.gen, now)])
