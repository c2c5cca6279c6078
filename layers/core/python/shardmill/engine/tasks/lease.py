"""Lease tasks: turn received messages into leases, with one conditional write for each block.

The rows are authoritative; a message only says that a task may be ready. A message is hidden while its task
is leased or must wait, and deleted only when the task no longer needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from shardmill.aws.observability import logger
from shardmill.aws.queues import RESEND, Message, Ticket
from shardmill.engine.groups import matching
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import bounce, completion, delivery, holders, retry
from shardmill.engine.tasks.attempts import LOST, store_unreported
from shardmill.engine.tasks.messages import lease_time, postpone, seconds_until
from shardmill.engine.tasks.retry import Bounce, End, Rules, Settled, Take, Verdict, Wait, on_delivery
from shardmill.engine.tasks.work_item import Receipt, work_item
from shardmill.model.blocks import UNTOUCHED, Block, Shard, block_of
from shardmill.model.states import StepState, TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged

_TRIES = 6
_RECEIVES_BEHIND = 20

StepKey = tuple[str, int, int]


@dataclass(slots=True)
class LeaseBatch:
    """One batch of messages: who received it, when, and what to do with the messages."""

    session: WorkerSession
    now: int
    leases: list[Lease] = field(default_factory=list)
    hide: list[tuple[Message, int]] = field(default_factory=list)
    release: list[Message] = field(default_factory=list)
    delete: list[Message] = field(default_factory=list)
    running: set[StepKey] = field(default_factory=set)
    rest: list[Message] | None = None
    """If given, tasks are only leased; it receives the messages that ask for anything else."""
    early: dict[Message, int] = field(default_factory=dict)
    """The messages of `rest` whose tasks are ready, but not due for so many milliseconds."""


def lease(
    mill: Mill,
    session: WorkerSession,
    messages: Sequence[Message],
    now: int,
    *,
    bounced: list[Message] | None = None,
) -> list[Lease]:
    """Lease the tasks of the messages that a worker session received.

    Messages of tasks that other workers of the queue can run are added to `bounced`, for a caller that looks
    behind them before it releases them; without it, they are released.
    """
    batch = LeaseBatch(session, now)
    tickets = _parse_tickets(mill, messages)
    steps = steps_of(mill, [ticket for ticket, _ in tickets], now)
    blocks: dict[tuple[StepKey, int], dict[int, Message]] = {}
    checks: dict[StepKey, list[tuple[Ticket, Message]]] = {}
    for ticket, message in tickets:
        step = steps.get(ticket.step_key)
        if ticket.rank <= RESEND:
            checks.setdefault(ticket.step_key, []).append((ticket, message))
            continue
        ranks = blocks.setdefault((ticket.step_key, block_of(ticket.rank)), {})
        if not step or not is_current(step, ticket) or ticket.rank in ranks:
            batch.delete.append(message)
        elif matching.queue_suspended(mill, step, message.queue, now):
            batch.hide.append((message, bounce.delay(message.receives)))
        else:
            ranks[ticket.rank] = message
    for (key, number), ranks in blocks.items():
        if ranks:
            with keep_partial_batch(batch, key):
                lease_block(mill, batch, steps[key], number, ranks)
    for key, received in checks.items():
        with keep_partial_batch(batch, key):
            delivery.on_messages(mill, key, received, now)
            batch.delete += [message for _, message in received]
    if bounced is not None:
        bounced += batch.release
        batch.release = []
    _apply_to_queues(mill, batch)
    return batch.leases


def _apply_to_queues(mill: Mill, batch: LeaseBatch) -> None:
    if hidden := [*batch.hide, *((message, 0) for message in batch.release)]:
        mill.queues.hide(hidden)
    if batch.delete:
        mill.queues.delete(batch.delete)


def lease_behind(
    mill: Mill,
    session: WorkerSession,
    bounced: list[Message],
    *,
    most: int,
    hide: Mapping[str, int],
    clock: Callable[[], int],
) -> list[Lease]:
    """Lease tasks whose messages are behind bounced ones, which stay hidden meanwhile.

    Otherwise the first tasks of a queue could keep a worker that cannot run them from all others.
    `hide`: the visibility timeout of each queue in seconds.
    """
    for queue in {message.queue for message in bounced} & hide.keys():
        for _ in range(_RECEIVES_BEHIND):
            messages = mill.queues.receive(queue, most=most, wait=0, hide=hide[queue])
            if not messages:
                break
            leases = lease(mill, session, messages, clock(), bounced=bounced)
            if leases:
                return leases
    return []


def _parse_tickets(mill: Mill, messages: Sequence[Message]) -> list[tuple[Ticket, Message]]:
    tickets = []
    for message in messages:
        if ticket := Ticket.decode(message.body):
            tickets.append((ticket, message))
        else:
            mill.queues.move_to_dead_letter_queue(message)
    return tickets


def steps_of(mill: Mill, tickets: Iterable[Ticket], now: int) -> Mapping[StepKey, StepRow]:
    """The steps of the tickets. A cached row that would make a message void is read again."""
    tickets = list(tickets)
    keys = {ticket.step_key for ticket in tickets}
    steps = mill.recent_steps.get(keys, mill.jobs.steps_by_key, now)
    outdated = {t.step_key for t in tickets if t.step_key in steps and not is_current(steps[t.step_key], t)}
    for key in outdated:
        mill.recent_steps.discard(key)
    return mill.recent_steps.get(keys, mill.jobs.steps_by_key, now) if outdated else steps


def is_current(step: StepRow, ticket: Ticket) -> bool:
    return step.opened and ticket.gen == step.gen and ticket.rank < step.total


@contextmanager
def keep_partial_batch(batch: LeaseBatch, key: StepKey) -> Iterator[None]:
    """Log an error instead of raising it if tasks were leased, because these must reach the worker."""
    try:
        yield
    except Exception:
        if not batch.leases:
            raise
        logger.exception(
            "failed to lease a part of a batch; its messages will reappear after their visibility timeout",
            extra={"action": "lease", "jobId": key[0], "run": key[1]},
        )


def lease_block(mill: Mill, batch: LeaseBatch, step: StepRow, number: int, ranks: dict[int, Message]) -> None:
    """Decide on each shard, write all changes at once, and start over if the block has changed.

    The first try assumes that the shards were never leased, which saves a read and is nearly always right.
    """
    lease_ms = lease_time(mill, step, batch.now)
    block = mill.shards.blocks(step, [number])[number] if step.stopping else None
    for _ in range(_TRIES):
        known = {rank: block[rank] if block else UNTOUCHED for rank in ranks}
        verdicts = _decide(mill, batch, step, known, lease_ms)
        if batch.rest is not None:
            waits = {rank: verdict.ms for rank, verdict in verdicts.items() if isinstance(verdict, Wait)}
            verdicts = {rank: verdict for rank, verdict in verdicts.items() if isinstance(verdict, Take)}
        changes = {rank: v.shard for rank, v in verdicts.items() if isinstance(v, Take | End)}
        try:
            expected = {rank: known[rank] if known[rank].attempt else None for rank in changes}
            if changes and not retry.any_of(verdicts.values(), End, Settled):
                mill.shards.lease(step, number, expected, changes)
            elif changes:
                block = mill.shards.change(
                    step, number, expected, changes, unswept=retry.any_of(verdicts.values(), Take)
                )
        except BlockChanged as changed:
            block = changed.block
            if block.swept and not step.stopping:
                stopping = step.evolve(stopping=True)
                mill.recent_steps.replace(step.key, step, stopping)
                step = stopping
            if not all(block[rank] == shard for rank, shard in changes.items()):
                continue
            # The SDK retried a write whose response was lost: the block has the values written here.
        if batch.rest is not None:
            batch.rest += [message for rank, message in ranks.items() if rank not in verdicts]
            batch.early |= {ranks[r]: ms for r, ms in waits.items() if known[r].state is TaskState.READY}
            ranks = {rank: ranks[rank] for rank in verdicts}
        _apply(mill, batch, step, block, known, verdicts, ranks, lease_ms)
        return
    if batch.rest is not None:
        batch.rest += ranks.values()
    else:
        batch.hide.extend((message, 1) for message in ranks.values())


def _decide(
    mill: Mill, batch: LeaseBatch, step: StepRow, known: Mapping[int, Shard], lease_ms: int
) -> dict[int, Verdict]:
    rules = Rules.of(step)
    alive = holders.live(mill, step, known, batch.now, lease_ms)
    unsuited = bounce.unsuited(mill, batch.session, step, known, batch.now)
    return {
        rank: on_delivery(
            shard,
            rules,
            worker=batch.session.reference,
            now=batch.now,
            lease_ms=lease_ms,
            holder_alive=rank in alive,
            stopping=step.stopping,
            suits=rank not in unsuited,
        )
        for rank, shard in known.items()
    }


def _apply(
    mill: Mill,
    batch: LeaseBatch,
    step: StepRow,
    block: Block | None,
    known: Mapping[int, Shard],
    verdicts: Mapping[int, Verdict],
    ranks: Mapping[int, Message],
    lease_ms: int,
) -> None:
    waits: list[tuple[int, Message, int]] = []
    for rank, message in ranks.items():
        verdict = verdicts[rank]
        if isinstance(verdict, Take):
            receipt = Receipt(step.run, message.queue, message.handle, verdict.shard, step.gen)
            batch.leases.append(work_item(step, rank, verdict.shard, receipt, lease_ms // 1000))
        elif isinstance(verdict, Wait) and known[rank].state is TaskState.RUNNING:
            batch.hide.append((message, seconds_until(verdict.ms, 0)))
        elif isinstance(verdict, Wait):
            waits.append((rank, message, seconds_until(verdict.ms, 0)))
    postpone(mill, step, waits, batch.now)
    if retry.any_of(verdicts.values(), Take):
        _mark_running(mill, batch, step)
    lost = {
        rank: known[rank]
        for rank, verdict in verdicts.items()
        if isinstance(verdict, Take | End) and verdict.shard.losses > known[rank].losses
    }
    if lost:
        store_unreported(mill, step, lost, LOST, batch.now)
        holders.drop_lost(mill, step, lost, batch.now)
    bounced = {rank: ranks[rank] for rank, verdict in verdicts.items() if isinstance(verdict, Bounce)}
    if bounced:
        left = bounce.bounce(mill, batch.session, step, bounced, batch.now)
        batch.release += left.release
        batch.hide += left.hide
        batch.delete += left.delete
    settled = [rank for rank, verdict in verdicts.items() if isinstance(verdict, End | Settled)]
    if settled:
        assert block is not None
        completion.wake(mill, step)
        completion.after_end(mill, step, block)
        ended = [rank for rank in settled if block[rank].state.ended]
        completion.send_next(mill, step, ended, batch.now, repeated=True)
        batch.delete.extend(ranks[rank] for rank in settled)


def _mark_running(mill: Mill, batch: LeaseBatch, step: StepRow) -> None:
    """Record the first lease in a READY step. One that was suspended meanwhile stays suspended."""
    if step.state is not StepState.READY or step.key in batch.running:
        return
    now = batch.now
    if step.root:
        mill.jobs.mark_running(step.job_id, step.run, now=now)
    present: StepRow | None = step
    while present and present.state is StepState.READY and not mill.jobs.begin_step(present, now=now):
        mill.recent_steps.discard(step.key)
        present = mill.jobs.step(*step.key)
    mill.recent_steps.replace(step.key, step, step.evolve(state=StepState.RUNNING))
    batch.running.add(step.key)


def delete_void(mill: Mill, messages: Sequence[Message], now: int) -> list[Message]:
    """Delete messages of older generations of their step. Returns the others."""
    tickets = _parse_tickets(mill, messages)
    steps = steps_of(mill, [ticket for ticket, _ in tickets], now)
    current = [m for t, m in tickets if (step := steps.get(t.step_key)) and is_current(step, t)]
    void = [message for _, message in tickets if message not in current]
    if void:
        mill.queues.delete(void)
    return current


def end_dead_leases(mill: Mill, step: StepRow, now: int) -> None:
    """End the running tasks of a stopping step whose workers are dead, and close its finished blocks."""
    lease_ms = lease_time(mill, step, now)
    for block in mill.shards.open_blocks(step):
        if block.finished:  # a crash came before it was closed
            completion.after_end(mill, step, block)
        known = {rank: shard for rank, shard in block.items() if shard.state is TaskState.RUNNING}
        verdicts = _decide(mill, LeaseBatch(WorkerSession(""), now), step, known, lease_ms)
        ends = {rank: verdict.shard for rank, verdict in verdicts.items() if isinstance(verdict, End)}
        if not ends:
            continue
        try:
            changed = mill.shards.change(step, block.number, {rank: known[rank] for rank in ends}, ends)
        except BlockChanged:
            continue  # a concurrent report won; the next call ends the rest
        completion.after_end(mill, step, changed)
