"""Find lost messages of quiet steps, and send the messages of a step again.

A step that has tasks to run may be quiet because its messages are lost, or because they wait behind others in
a busy queue. A check tells which: it sends one more message to the same queue. If a worker receives that one
and no task of the step was leased or reported meanwhile, the other messages were not in front of it: they are
lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.aws.observability import logger
from shardmill.aws.queues import RETENTION_SECONDS
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import completion, holders, messages, window
from shardmill.model.blocks import Block, block_of
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow

FIRST_CHECK_MS = 60_000
MAX_CHECK_MS = 6 * 3_600_000
RESEND_AFTER_MS = RETENTION_SECONDS * 1000 * 10 // 14
"""Messages are sent again while those before them still exist, with four days to spare."""


def check(mill: Mill, step: StepRow, now: int, *, in_turn: bool = True) -> bool:
    """Send a quiet step's messages again before they expire, or check whether they are lost.

    The time between checks doubles while the step stays quiet. After that, the caller gives each step its
    turn, and only a check that is sent writes the row: so a step that runs or waits for days costs little.
    Return whether anything was sent.
    """
    if now - (step.sent_time or step.create_time) > RESEND_AFTER_MS:
        resend(mill, mill.jobs.raise_generation(step), now)
        return True
    quiet_since = max(step.update_time, step.active_time, step.sent_time)
    checks = step.checks if step.checked_time > quiet_since else 0
    long_quiet = now - quiet_since > MAX_CHECK_MS
    interval = min(FIRST_CHECK_MS << min(checks, 20), MAX_CHECK_MS)
    if not in_turn if long_quiet else now < max(quiet_since, step.checked_time) + interval:
        return False
    blocks = list(mill.shards.open_blocks(step))
    for block in blocks:
        completion.after_end(mill, step, block)
    active = _last_activity(step, blocks, now)
    if active > quiet_since:
        checks = 0
    waiting = _first_waiting(mill, step, blocks, now)
    lost = waiting is not None and active + FIRST_CHECK_MS <= now and _any_capable_worker(mill, step, now)
    if long_quiet and (not lost or now < step.checked_time + MAX_CHECK_MS):
        return False
    noted = mill.jobs.note_check(step, checked_time=now, checks=checks + 1, active_time=active)
    if not noted or not lost or waiting is None:
        return False
    messages.send_check(mill, step, waiting, now)
    return True


def on_message(mill: Mill, key: tuple[str, int, int], now: int) -> None:
    """Complete a resend that was requested, or finish a check: the message without a task was received."""
    step = mill.jobs.step(*key)
    if not step or not step.opened or step.stopping:
        return
    if step.resend:
        messages.send_open(mill, step, now)
    elif step.checked_time > step.sent_time and _is_quiet(mill, step, now):
        resend(mill, mill.jobs.raise_generation(step), now)


def resend(mill: Mill, step: StepRow | None, now: int) -> None:
    """Send the messages of a step's new generation; None if the step changed before it was raised."""
    if step:
        count = messages.send_open(mill, step, now)
        fields = {"jobId": step.job_id, "run": step.run, "step": step.name, "count": count}
        logger.warning("resent the messages of a step", extra={"action": "enqueue", **fields})


def _is_quiet(mill: Mill, step: StepRow, now: int) -> bool:
    """Whether a task waits, and no task was leased or reported since the check began."""
    blocks = list(mill.shards.open_blocks(step))
    quiet = _last_activity(step, blocks, now) <= step.checked_time
    return quiet and _first_waiting(mill, step, blocks, now) is not None


def _any_capable_worker(mill: Mill, step: StepRow, now: int) -> bool:
    need = required_program(step)
    groups = group_rows(mill, step.groups, now).values()
    return any(has_capable_worker(mill, group, need, now) for group in groups)


def _last_activity(step: StepRow, blocks: Sequence[Block], now: int) -> int:
    """The last time that a task was leased or reported, as far as it is known; retries are in the future."""
    times = [shard.time + shard.span for block in blocks for shard in block.shards.values()]
    return max([step.active_time, *(time for time in times if time <= now)])


def _first_waiting(mill: Mill, step: StepRow, blocks: Sequence[Block], now: int) -> int | None:
    """A task that a worker should have leased by now: it is ready, or its worker has disappeared."""
    by_number = {block.number: block for block in blocks}
    known = {rank: by_number[block_of(rank)][rank] for rank in window.sendable(step, by_number)}
    ready = [rank for rank, shard in known.items() if shard.state is TaskState.READY and shard.time <= now]
    if ready:
        return ready[0]
    alive = holders.live(mill, step, known, now, messages.lease_time(mill, step, now))
    return next(
        (rank for rank, shard in known.items() if shard.state is TaskState.RUNNING and rank not in alive),
        None,
    )
