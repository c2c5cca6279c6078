"""Attempts that outlived their `timeoutSeconds` while their worker, alive, did not end them."""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.aws.queues import MAX_DELAY_SECONDS
from shardmill.engine import enqueue, settle, tally
from shardmill.engine.attempts import keep_cut_off
from shardmill.engine.enqueue import seconds_until
from shardmill.engine.mill import Mill
from shardmill.engine.rules import TIMED_OUT, Outcome, Rules, on_report
from shardmill.engine.task_id import task_id
from shardmill.model.blocks import Block
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged


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
    keep_cut_off(mill, step, known, TIMED_OUT, now)
    for rank, shard in known.items():
        tally.failed_at(mill, shard.worker_id, task_id(step, rank), now - shard.time, now)
    settle.after_end(mill, step, changed)
    settle.send_next(mill, step, changes.keys() - again.keys(), now, repeated=False)
    for rank, shard in again.items():
        delay = min(seconds_until(shard.time, now), MAX_DELAY_SECONDS)
        enqueue.send_if_possible(mill, step, [rank], now, delay=delay)
    return set(known)
