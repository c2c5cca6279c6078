"""Handing tasks back: a worker that stops lets others go on at once, and nothing counts as a failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardmill.aws.queues import MAX_DELAY_SECONDS, Message
from shardmill.engine.groups import totals
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id, task_id
from shardmill.engine.tasks import completion, messages
from shardmill.engine.tasks import messages as task_messages
from shardmill.engine.tasks.attempts import store_unreported
from shardmill.engine.tasks.messages import lease_time, seconds_until
from shardmill.engine.tasks.retry import TIMED_OUT, Outcome, Rules, on_hand_back, on_report
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.blocks import Block, Shard, block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import HandedBack
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged


def hand_back(mill: Mill, worker_id: str, tasks: Sequence[HandedBack], now: int) -> list[str]:
    """Make tasks that a worker holds READY again; the ids of those it did hold."""
    given: list[str] = []
    messages: list[tuple[Message, int]] = []
    for task in tasks:
        place, receipt = parse_task_id(task.task_id), Receipt.decode(task.receipt)
        if not place or not receipt:
            continue
        job_id, index, rank = place
        step = mill.jobs.step(job_id, receipt.run, index)
        held = receipt.shard
        mine = held.worker_id == worker_id and held.attempt == task.attempt
        if not step or not mine or held.state is not TaskState.RUNNING or rank >= step.total:
            continue
        try:
            changes = {rank: on_hand_back(held, now)}
            mill.shards.change(step, block_of(rank), {rank: held}, changes, unswept=True)
        except BlockChanged as changed:
            if changed.block.swept and changed.block[rank] == held:
                end_dropped(mill, step, rank, held)
            continue
        given.append(task.task_id)
        if receipt.gen == step.gen and now - held.time < 0.8 * lease_time(mill, step, now):
            messages.append((receipt.message, 0))
        else:  # it is void, or another may have received it since, and hidden it for long
            task_messages.send_if_possible(mill, step, [rank], now)
    if messages:
        mill.queues.hide(messages)
    return given


def end_dropped(mill: Mill, step: StepRow, rank: int, held: Shard) -> None:
    """A task that comes back to a step which stops is killed: nobody will take it again."""
    killed = {rank: held.evolve(state=TaskState.KILLED)}
    try:
        block = mill.shards.change(step, block_of(rank), {rank: held}, killed)
    except BlockChanged:
        return  # somebody else ended it just now
    completion.after_end(mill, step, block)


def end_overdue(mill: Mill, step: StepRow, block: Block, ranks: Iterable[int], now: int) -> set[int]:
    """End those of the attempts whose time is over, as failed; their ranks."""
    rules = Rules.of(step)
    known = {rank: block[rank] for rank in ranks if rules.overdue(block[rank], now)}
    if not known:
        return set()
    stopping = step.stopping or block.swept
    changes = {
        rank: on_report(shard, rules, Outcome.FAILED, reason=TIMED_OUT, now=now, stopping=stopping)
        for rank, shard in known.items()
    }
    again = {rank: shard for rank, shard in changes.items() if shard.state is TaskState.READY}
    try:
        changed = mill.shards.change(step, block.number, known, changes, unswept=bool(again))
    except BlockChanged:
        return set()  # somebody reported just now; the next heartbeat sees the rest
    store_unreported(mill, step, known, TIMED_OUT, now)
    for rank, shard in known.items():
        totals.record_failure(mill, shard.worker_id, task_id(step, rank), now - shard.time, now)
    completion.after_end(mill, step, changed)
    completion.send_next(mill, step, changes.keys() - again.keys(), now, repeated=False)
    for rank, shard in again.items():
        delay = min(seconds_until(shard.time, now), MAX_DELAY_SECONDS)
        messages.send_if_possible(mill, step, [rank], now, delay=delay)
    return set(known)
