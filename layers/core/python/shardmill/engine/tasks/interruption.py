"""Interrupted attempts: tasks that a stopping worker returns, and tasks that exceed their timeout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from shardmill.aws.queues import MAX_DELAY_SECONDS, Message
from shardmill.engine.groups import totals
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tasks import completion, messages
from shardmill.engine.tasks.attempts import is_recorded, store_returned, store_unreported
from shardmill.engine.tasks.messages import lease_time, seconds_until
from shardmill.engine.tasks.retry import TIMED_OUT, Outcome, Rules, on_hand_back, on_report
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.blocks import Block, Shard, block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import HandedBack
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged


def hand_back(mill: Mill, worker_id: str, tasks: Sequence[HandedBack], now: int) -> list[str]:
    """Make returned tasks READY again, without a failure. Returns the ids of those the worker held.

    A repeated call, after one whose answer was lost, repeats the operations that follow the change.
    """
    ids: list[str] = []
    visible: list[tuple[Message, int]] = []
    returned: list[tuple[StepRow, int, Shard, str]] = []
    for task in tasks:
        parsed, receipt = parse_task_id(task.task_id), Receipt.decode(task.receipt)
        if not parsed or not receipt:
            continue
        job_id, index, rank = parsed
        step = mill.jobs.step(job_id, receipt.run, index)
        held = receipt.shard
        mine = held.worker_id == worker_id and held.attempt == task.attempt
        if not step or not mine or held.state is not TaskState.RUNNING or rank >= step.total:
            continue
        change = _return(mill, step, rank, held, now)
        if change is _Return.CHANGED:
            ids.append(task.task_id)
        if change in (_Return.CHANGED, _Return.KILLED) or (
            change is _Return.REPEATED and not is_recorded(mill, step, rank, held)
        ):
            returned.append((step, rank, held, task.reason))
        if change in (_Return.CHANGED, _Return.REPEATED):
            recent = receipt.gen == step.gen and now - held.time < 0.8 * lease_time(mill, step, now)
            if receipt.message and recent:
                visible.append((receipt.message, 0))
            else:  # the message is void, or another worker may have received and hidden it
                messages.send_if_possible(mill, step, [rank], now)
    if visible:
        mill.queues.hide(visible)
    if returned:
        store_returned(mill, returned, now)
    return ids


class _Return(Enum):
    """The result of returning a task."""

    CHANGED = "READY again"
    REPEATED = "was READY again before"
    KILLED = "its step is stopping"
    NOT_HELD = "the worker no longer holds it"


def _return(mill: Mill, step: StepRow, rank: int, held: Shard, now: int) -> _Return:
    try:
        changes = {rank: on_hand_back(held, now)}
        mill.shards.change(step, block_of(rank), {rank: held}, changes, unswept=True)
    except BlockChanged as changed:
        present = changed.block[rank]
        if changed.block.swept and present == held:
            _kill_returned(mill, step, rank, held)
            return _Return.KILLED
        return _Return.REPEATED if present == on_hand_back(held, present.time) else _Return.NOT_HELD
    return _Return.CHANGED


def _kill_returned(mill: Mill, step: StepRow, rank: int, held: Shard) -> None:
    """Kill a task that was returned to a stopping step."""
    killed = {rank: held.evolve(state=TaskState.KILLED)}
    try:
        block = mill.shards.change(step, block_of(rank), {rank: held}, killed)
    except BlockChanged:
        return  # already ended concurrently
    completion.after_end(mill, step, block)


def end_overdue(mill: Mill, step: StepRow, block: Block, ranks: Iterable[int], now: int) -> set[int]:
    """Fail the attempts that exceeded their timeout. Returns their ranks."""
    rules = Rules.of(step)
    known = {rank: block[rank] for rank in ranks if rules.overdue(block[rank], now)}
    if not known:
        return set()
    stopping = step.stopping or block.swept
    changes = {
        rank: on_report(shard, rules, Outcome.FAILED, reason=TIMED_OUT, now=now, stopping=stopping)
        for rank, shard in known.items()
    }
    retried = {rank: shard for rank, shard in changes.items() if shard.state is TaskState.READY}
    try:
        changed = mill.shards.change(step, block.number, known, changes, unswept=bool(retried))
    except BlockChanged:
        return set()  # a concurrent report won; the next heartbeat ends the rest
    store_unreported(mill, step, known, TIMED_OUT, now)
    for rank, shard in known.items():
        totals.record_failure(mill, shard.worker_id, step, rank, now - shard.time, now)
    completion.after_end(mill, step, changed)
    completion.send_next(mill, step, changes.keys() - retried.keys(), now, repeated=False)
    for rank, shard in retried.items():
        delay = min(seconds_until(shard.time, now), MAX_DELAY_SECONDS)
        messages.send_if_possible(mill, step, [rank], now, delay=delay)
    return set(known)
