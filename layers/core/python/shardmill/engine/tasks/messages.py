"""Send the messages of tasks to the lanes of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import ceil
from typing import NamedTuple

from shardmill.aws.observability import logger
from shardmill.aws.queues import BATCH, MAX_DELAY_SECONDS, RESEND, Message, Ticket
from shardmill.engine.continuation import Budget
from shardmill.engine.errors import GroupNotFound
from shardmill.engine.groups.lanes import order_queue_for, queue_for
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import STEP_CACHE_MS, Mill
from shardmill.engine.tasks import window
from shardmill.model.blocks import block_count
from shardmill.store.rows import StepRow
from shardmill.store.shards import FEW_BLOCKS
from shardmill.store.table import MAX_BATCH

MAX_SENT_IN_REQUEST = 1_000
"""A request that raises a generation sends at most this many messages itself, and has a worker send more."""
MAX_SENT_IN_SLICE = 5_000
"""The messages that one call sends again; SQS takes ten in a call, and a request has 29 seconds."""
MAX_HIDDEN_WAIT_SECONDS = 30
"""Up to here, hiding a message is cheaper than sending and deleting one, and few are hidden at a time."""


class Route(NamedTuple):
    """Where messages are sent: the queue of a group, and the order queue that gets copies, if any."""

    queue: str
    copies: str = ""

    def encode(self) -> str:
        """As the state machine passes it on; without copies, as in earlier releases."""
        return f"{self.queue} {self.copies}".rstrip()

    @classmethod
    def decode(cls, text: str) -> Route:
        return cls(*text.split(" "))


def lease_time(mill: Mill, step: StepRow, now: int) -> int:
    """How long a lease of a step's tasks is valid without a heartbeat, in milliseconds."""
    groups = group_rows(mill, step.groups, now)
    return 1000 * max((group.lease_seconds for group in groups.values()), default=60)


def seconds_until(moment: int, now: int) -> int:
    return max(0, -(-(moment - now) // 1000))


def queues_of(mill: Mill, step: StepRow, now: int) -> list[str]:
    """The queues for a step's messages."""
    return [route.queue for route in routes_of(mill, step, now)]


def routes_of(mill: Mill, step: StepRow, now: int, *, only: Sequence[str] | None = None) -> list[Route]:
    """The routes of a step's messages: to its groups with a capable worker, or else to all."""
    rows = group_rows(mill, step.groups, now)
    groups = [rows[name] for name in only or step.sent_to or step.groups if name in rows]
    if len(groups) > 1:
        need = required_program(step)
        groups = [group for group in groups if has_capable_worker(mill, group, need, now)] or groups
    routes = [
        Route(queue_for(mill, group, step.priority), order_queue_for(mill, group, step.priority, now))
        for group in groups
    ]
    if not routes:
        raise GroupNotFound(
            f"none of the worker groups of step {step.name!r} exists: {', '.join(step.groups)}"
        )
    return routes


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
    send_to(mill, routes_of(mill, step, now, only=to), key, step.gen, ranks, delay=delay)


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
    SQS delays a message is postponed again. While the group needs copies of its messages, a task with a short
    wait gets a new message with a copy, too.
    """
    waits = list(waits)
    hidden: list[tuple[Message, int]] = []
    replaced: list[Message] = []
    delayed: dict[int, list[int]] = {}
    copied = bool(waits) and _has_copies(mill, step, now)
    for rank, message, seconds in waits:
        if seconds <= MAX_HIDDEN_WAIT_SECONDS and not copied:
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


def _has_copies(mill: Mill, step: StepRow, now: int) -> bool:
    groups = group_rows(mill, step.groups, now).values()
    return any(order_queue_for(mill, group, step.priority, now) for group in groups)


def send_to(
    mill: Mill,
    routes: Sequence[Route],
    step_key: tuple[str, int, int],
    gen: int,
    ranks: Iterable[int],
    *,
    delay: int = 0,
) -> None:
    """Send one message for each task. Its copy comes first, so that no message is without one."""
    tickets: dict[Route, list[Ticket]] = {}
    for rank in ranks:
        tickets.setdefault(routes[rank % len(routes)], []).append(Ticket(*step_key, gen, rank))
    for route, listed in tickets.items():
        if route.copies:
            mill.queues.send(route.copies, listed, delay=delay)
        mill.queues.send(route.queue, listed, delay=delay)


def send_range(
    mill: Mill, routes: Sequence[Route], step_key: tuple[str, int, int], gen: int, ranks: range
) -> int:
    """Send the first messages of the lines of `ranks` when a step opens. Returns the number of messages."""
    sent = list(ranks) if step_key[1] == 1 else first_open(mill, step_key, ranks)
    send_to(mill, routes, step_key, gen, sent)
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
        _send_request(mill, step, RESEND - rest[0], now)
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
    _send_request(mill, step, RESEND, now, delay=STEP_CACHE_MS // 1000 + 1)


def _send_request(mill: Mill, step: StepRow, rank: int, now: int, *, delay: int = 0) -> None:
    """Send a message without a task, which needs no copy."""
    mill.queues.send(queues_of(mill, step, now)[0], [Ticket(*step.key, step.gen, rank)], delay=delay)


def request_wake(mill: Mill, step: StepRow, now: int) -> None:
    """Send a delayed message that wakes a step which was stopped before its execution waits."""
    with suppress(GroupNotFound):  # the tick wakes it
        request_resend(mill, step, now)


def send_checks(mill: Mill, step: StepRow, queues: Iterable[str], now: int) -> None:
    """Send a message without a task to each of these queues of a step; see `delivery.check`."""
    for queue in queues:
        mill.queues.send(queue, [Ticket.check(*step.key, step.gen, now)])
