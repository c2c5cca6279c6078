"""Handing tasks back: a worker that stops lets others go on at once, and nothing counts as a failure."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.aws.queues import Message
from shardmill.engine import enqueue, settle
from shardmill.engine.enqueue import lease_time
from shardmill.engine.mill import Mill
from shardmill.engine.rules import on_hand_back
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.work import Receipt
from shardmill.model.blocks import Shard, block_of
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
            enqueue.send_if_possible(mill, step, [rank], now)
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
    settle.after_end(mill, step, block)
