"""Lease the tasks of messages that a worker over HTTP received at SQS and brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardmill.aws.queues import Message, Ticket
from shardmill.engine.groups import matching
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.lease import (
    LeaseBatch,
    StepKey,
    is_current,
    keep_partial_batch,
    lease_block,
    steps_of,
)
from shardmill.model.blocks import block_of
from shardmill.model.worker import Lease
from shardmill.store.rows import StepRow


def lease_brought(
    mill: Mill, session: WorkerSession, groups: Mapping[str, str], messages: Sequence[Message], now: int
) -> tuple[list[Lease], list[Message]]:
    """Lease the tasks of messages that a worker brings and may have invented, kept or changed.

    `groups`: the group of each queue that the worker may use. Returns the leases, and the messages that led
    to none. These were not touched: the handle of a message need not belong to its body.
    """
    batch = LeaseBatch(session, now, rest=[])
    assert batch.rest is not None
    blocks: dict[tuple[StepKey, int], dict[int, Message]] = {}
    tickets = {message: ticket for message in messages if (ticket := Ticket.decode(message.body))}
    steps = steps_of(mill, tickets.values(), now)
    for message in messages:
        ticket = tickets.get(message)
        step = steps.get(ticket.step_key) if ticket else None
        if not ticket or not step or ticket.rank < 0 or not is_current(step, ticket):
            batch.rest.append(message)
            continue
        ranks = blocks.setdefault((ticket.step_key, block_of(ticket.rank)), {})
        served = groups.get(message.queue) in step.groups
        if ticket.rank in ranks or not served or matching.queue_suspended(mill, step, message.queue, now):
            batch.rest.append(message)
        else:
            ranks[ticket.rank] = message
    for (key, number), ranks in blocks.items():
        early = _not_in_turn(mill, steps[key], ranks) if ranks else set()
        batch.rest += [ranks.pop(rank) for rank in early]
        if ranks:
            with keep_partial_batch(batch, key):
                lease_block(mill, batch, steps[key], number, ranks)
    return batch.leases, batch.rest


def _not_in_turn(mill: Mill, step: StepRow, ranks: Iterable[int]) -> set[int]:
    """The tasks for which no message was sent yet, because the task before them in the window is open."""
    before = {rank: rank - step.window for rank in ranks if rank >= step.window}
    if not before:
        return set()
    blocks = mill.shards.blocks(step, {block_of(earlier) for earlier in before.values()})
    return {rank for rank, earlier in before.items() if not blocks[block_of(earlier)][earlier].state.ended}
