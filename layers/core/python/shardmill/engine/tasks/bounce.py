"""Bounce tasks: leave tasks that a worker cannot run, or has failed, to other workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.aws.queues import Message
from shardmill.engine.groups import matching
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import messages as task_messages
from shardmill.engine.tasks import unmatched
from shardmill.model.blocks import Shard
from shardmill.store.rows import StepRow

_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 1, 60


@dataclass(slots=True)
class Bounced:
    """The treatment of the messages of bounced tasks; workers of the same queue get the ones in `release`."""

    release: list[Message] = field(default_factory=list)
    hide: list[tuple[Message, int]] = field(default_factory=list)
    delete: list[Message] = field(default_factory=list)


def unsuited(
    mill: Mill, session: WorkerSession, step: StepRow, shards: Mapping[int, Shard], now: int
) -> set[int]:
    """The tasks that the session cannot run, or failed while another worker can run them."""
    ranks = list(shards)
    if session.client and matching.unfit_for_clients(step):
        return set(ranks)
    if session.space is not None and not _has_room(mill, session.space, step):
        return set(ranks)
    if matching.ANY not in session.apps and not matching.can_run(
        session.apps, matching.required_program(step)
    ):
        return set(ranks)
    failed_at = {rank for rank in ranks if session.skip and task_id(step, rank) in session.skip}
    if session.strict:
        return {rank for rank in failed_at if shards[rank].failures}
    return {
        rank
        for rank in failed_at
        if matching.other_capable_groups(mill, step, now, session=session, task=task_id(step, rank))
    }


def _has_room(mill: Mill, space: int, step: StepRow) -> bool:
    """Whether the inputs of a step's tasks, as far as their sizes are known, fit into the space."""
    inputs = step.spec.get("inputs") or ()
    if not inputs:
        return True
    size = sum(int(file.get("size") or 0) for file in inputs)
    if any(file.get("origin") for file in inputs):
        from shardmill.engine.files.sources import known_size  # imported here because few steps need it

        size += known_size(mill, step)
    return not size or space > size


def bounce(
    mill: Mill, session: WorkerSession, step: StepRow, messages: Mapping[int, Message], now: int
) -> Bounced:
    """Decide on the messages of tasks that a session leaves to others.

    A task that a live worker of the queue can run is released at once: a delay would keep an idle worker
    waiting, and the receiver does not ask for it again. Only a task that no live worker can run is hidden for
    a growing time. A task that only another group can run is sent there.
    """
    if not matching.can_run(session.apps, matching.required_program(step)):
        unmatched.note_unmatched(mill, step, list(messages), now)
    rows = matching.group_rows(mill, step.groups, now)
    bounced = Bounced()
    for rank, message in messages.items():
        names = matching.other_capable_groups(mill, step, now, session=session, task=task_id(step, rank))
        here = {name for name, row in rows.items() if message.queue in row.queues}
        if not names:
            bounced.hide.append((message, delay(message.receives)))
        elif here.isdisjoint(names):
            task_messages.send(mill, step, [rank], now, to=names)
            bounced.delete.append(message)
        else:
            bounced.release.append(message)
    return bounced


def delay(receives: int) -> int:
    """Seconds to hide a message that no live worker can use, by how often it was received."""
    return min(_MAX_DELAY_SECONDS, _FIRST_DELAY_SECONDS << min(receives - 1, 10) if receives else 1)
