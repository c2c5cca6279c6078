"""Handing tasks back: a worker that stops lets others go on at once, and nothing counts as a failure."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.aws.queues import Message
from shardmill.engine.mill import Mill
from shardmill.engine.rules import on_hand_back
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.work import Receipt
from shardmill.model.blocks import block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import HandedBack
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
        except BlockChanged:
            continue
        given.append(task.task_id)
        messages.append((receipt.message, 0))
    if messages:
        mill.queues.hide(messages)
    return given
