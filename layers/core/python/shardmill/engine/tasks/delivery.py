"""Find lost messages of quiet steps, and send the messages of a step again.

A step that has tasks to run may be quiet because its messages are lost, or because they wait behind others in
a busy queue. A check shows which: it sends one more message to the same queue. If a worker receives that one
and no task of the step was leased or reported meanwhile, the other messages were not in front of it: they are
lost. A step with several groups has several queues, each with its own share of the tasks; each is checked by
itself, because one may be busy while the messages of another are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from shardmill.aws.observability import logger
from shardmill.aws.queues import RETENTION_SECONDS, Message, Ticket
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import completion, holders, messages, window
from shardmill.model.blocks import Block, Shard, block_of
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
    delivery = _Delivery(mill, step, blocks, now)
    active = delivery.last_activity()
    if active > quiet_since:
        checks = 0
    lost = delivery.possibly_lost(long_quiet) if _any_capable_worker(mill, step, now) else []
    if long_quiet and (not lost or now < step.checked_time + MAX_CHECK_MS):
        return False
    noted = mill.jobs.note_check(step, checked_time=now, checks=checks + 1, active_time=active)
    if not noted or not lost:
        return False
    messages.send_checks(mill, step, lost, now)
    return True


def on_messages(
    mill: Mill, key: tuple[str, int, int], received: Sequence[tuple[Ticket, Message]], now: int
) -> None:
    """Complete a resend that was requested, or finish checks: messages of a step without a task came."""
    step = mill.jobs.step(*key)
    if not step or not step.opened:
        return
    if step.stopping:
        completion.wake(mill, step)
        return
    if step.resend:
        current = [ticket.resend_from for ticket, _ in received if ticket.gen == step.gen]
        messages.send_open(mill, step, now, start=min(current, default=0))
        return
    times = {message.queue: time for ticket, message in received if (time := ticket.check_time)}
    checked = {queue: time for queue, time in times.items() if time > step.sent_time}
    if checked:
        delivery = _Delivery(mill, step, list(mill.shards.open_blocks(step)), now)
        if any(delivery.is_quiet(queue, time) for queue, time in checked.items()):
            resend(mill, mill.jobs.raise_generation(step), now)


def resend(mill: Mill, step: StepRow | None, now: int) -> None:
    """Send the messages of a step's new generation; None if the step changed before it was raised."""
    if step:
        count = messages.send_open(mill, step, now)
        fields = {"jobId": step.job_id, "run": step.run, "step": step.name, "count": count}
        logger.warning("resent the messages of a step", extra={"action": "enqueue", **fields})


def _any_capable_worker(mill: Mill, step: StepRow, now: int) -> bool:
    need = required_program(step)
    groups = group_rows(mill, step.groups, now).values()
    return any(has_capable_worker(mill, group, need, now) for group in groups)


class _Delivery:
    """The queues of a step, and the tasks that have a message in each, as far as the open blocks show."""

    def __init__(self, mill: Mill, step: StepRow, blocks: Sequence[Block], now: int) -> None:
        self._mill = mill
        self._step = step
        self._blocks = blocks
        self._now = now
        self._queues = messages.queues_of(mill, step, now)

    def possibly_lost(self, every: bool) -> list[str]:
        """The queues with a task that waits, of which none was leased or reported for a while.

        If another queue is active, the caller comes every minute. Then the time between checks of this one
        doubles; `every` includes it in any case.
        """
        found = []
        for place, queue in enumerate(self._queues):
            since = max(self._step.sent_time, self.last_activity(place))
            minutes = (self._now - since) // FIRST_CHECK_MS
            before = max(0, self._step.checked_time - since) // FIRST_CHECK_MS
            due = every or len(self._queues) == 1 or minutes.bit_length() > before.bit_length()
            if minutes and due and self._waits(place):
                found.append(queue)
        return found

    def is_quiet(self, queue: str, since: int) -> bool:
        """Whether a task of a queue waits, and none was leased or reported since a time."""
        if queue not in self._queues:
            return False  # its group lost its workers; the tick sends to the others
        place = self._queues.index(queue)
        return self.last_activity(place) <= since and self._waits(place)

    def last_activity(self, place: int | None = None) -> int:
        """The last time that a task, or one of a queue, was leased or reported, as far as it is known."""
        times = [
            shard.time + shard.span
            for block in self._blocks
            for rank, shard in block.touched()
            if place is None or self._is_at(place, rank)
        ]
        known = self._step.active_time if place is None or len(self._queues) == 1 else 0
        return max([known, *(time for time in times if time <= self._now)])  # retries are in the future

    def _is_at(self, place: int, rank: int) -> bool:
        return rank % len(self._queues) == place

    def _waits(self, place: int) -> bool:
        """Whether a worker should have leased a task by now: it is ready, or its worker has disappeared."""
        sent = {rank: shard for rank, shard in self._sent.items() if self._is_at(place, rank)}
        if any(shard.state is TaskState.READY and shard.time <= self._now for shard in sent.values()):
            return True
        running = {rank: shard for rank, shard in sent.items() if shard.state is TaskState.RUNNING}
        lease_ms = messages.lease_time(self._mill, self._step, self._now)
        return len(holders.live(self._mill, self._step, running, self._now, lease_ms)) < len(running)

    @cached_property
    def _sent(self) -> dict[int, Shard]:
        """The tasks that should have a message."""
        blocks = {block.number: block for block in self._blocks}
        return {rank: blocks[block_of(rank)][rank] for rank in window.sendable(self._step, blocks)}
