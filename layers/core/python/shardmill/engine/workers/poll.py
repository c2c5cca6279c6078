"""Lease over HTTP, with messages that a worker received at SQS, or that are received here on its behalf.

In the second case, every lane is polled once a second, and the usual one is long-polled meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.aws.queues import Message
from shardmill.engine.errors import GroupNotFound, MillError, StaleSession, WorkerSuspended
from shardmill.engine.groups.lanes import forget_outdated
from shardmill.engine.groups.matching import WorkerSession, group_rows, suspension_reasons
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.brought import lease_brought
from shardmill.engine.tasks.lease import lease, lease_behind
from shardmill.engine.workers import registry
from shardmill.engine.workers.addresses import lanes_changed, new_addresses, queue_name
from shardmill.engine.workers.registry import heartbeat_seconds
from shardmill.model.groups.addresses import LaneAddresses, ReceivedMessage
from shardmill.model.worker import MAX_BATCH, MAX_HELD, Lease, LeaseRequest
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally

ROUND_SECONDS = 1
_READ_MS = 5_000  # how often the worker's row is read while no messages arrive
# A caller without a heartbeat for this many intervals may have exited: lease it no tasks.
_MISSED_HEARTBEATS = 1.5


@dataclass(frozen=True, slots=True)
class Pulled:
    """`paused`: queues whose tasks are for other workers, so this worker does not poll them for a moment."""

    leases: list[Lease] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    lanes: LaneAddresses | None = None


def pull(
    mill: Mill,
    request: LeaseRequest,
    clock: Callable[[], int],
    *,
    worker: WorkerRow | None = None,
) -> Pulled:
    """Lease up to `max` tasks for a worker, with the messages that it brings or that are received here.

    `worker`: its row, if it was just read.
    """
    worker = worker or registry.read(mill, request.worker_id)
    brought = _own_messages(mill, worker, request.messages or (), clock())
    _forget_outdated(mill, worker, brought, clock())
    try:
        _check_worker(worker, request.session)
        groups = _active_groups(mill, worker, clock())
    except MillError:
        _release(mill, brought)
        raise
    lanes = _Lanes(mill, groups, clock)
    if not request.messages:
        most = min(request.max, MAX_BATCH)
        leases = _wait(lanes, worker, most, request.wait_seconds) if most else []
    elif request.lanes is not None and lanes_changed(mill, worker, request.lanes, clock()):
        _release(mill, brought)  # a higher lane may have been added while this one waited
        leases = []
    else:
        leases = _lease_brought(lanes, worker, brought, request.max)
    if leases:
        tally, taken = Tally(checkout=len(leases)), [task.task_id for task in leases]
        record_totals(mill, worker.id, tally, clock(), taken=taken)
    paused = [] if leases else sorted(map(queue_name, lanes.bounced_from))
    renewed = None if request.lanes is None else new_addresses(mill, worker, request.lanes, clock())
    return Pulled(leases, paused, renewed)


def _check_worker(worker: WorkerRow, session: int | None) -> None:
    if worker.offline or session not in (None, worker.session):
        raise _stale(worker)
    if not worker.takes_tasks:
        raise WorkerSuspended(f"worker {worker.name!r} takes no tasks: {worker.notes or worker.tired}")
    if len(worker.work) >= MAX_HELD:
        raise WorkerSuspended(
            f"worker {worker.name!r} holds {len(worker.work)} tasks and takes no more; report or release some"
        )


def _own_messages(
    mill: Mill, worker: WorkerRow, received: Sequence[ReceivedMessage], now: int
) -> list[Message]:
    """The messages that a worker brings, except messages of queues that are not its own."""
    if not received:
        return []
    rows = group_rows(mill, worker.groups, now).values()
    queues = {queue_name(url): url for row in rows if row.kind != "lambda" for url in row.queues}
    return [
        Message(queues[each.queue], each.receipt, each.body, receives=each.receives)
        for each in received
        if each.queue in queues
    ]


def _forget_outdated(mill: Mill, worker: WorkerRow, messages: Sequence[Message], now: int) -> None:
    if messages:
        groups = [row for row in group_rows(mill, worker.groups, now).values() if row.kind != "lambda"]
        forget_outdated(mill, groups, (message.queue for message in messages))


def _release(mill: Mill, messages: Sequence[Message]) -> None:
    if messages:
        mill.queues.hide((message, 0) for message in messages)


def _lease_brought(lanes: _Lanes, worker: WorkerRow, brought: list[Message], most: int) -> list[Lease]:
    """Lease the tasks of messages that a worker brings; make those that lead to no lease visible again.

    A message that needs any other treatment, for example a void one, is then received here: a worker's claim
    about a message must not delete, hide or send one.
    """
    mill = lanes.mill
    groups = {queue: group.name for group in lanes.groups for queue in group.queues}
    session = WorkerSession.of(worker)
    leases, rest = lease_brought(mill, session, groups, brought[:most], lanes.clock())
    _release(mill, [*rest, *brought[most:]])
    queues = {message.queue for message in rest}
    for group, queue in lanes.by_priority():
        if queue in queues and len(leases) < most:
            leases += lanes.receive_and_lease(worker, group, queue, most - len(leases))
    return leases


def _wait(lanes: _Lanes, worker: WorkerRow, most: int, seconds: int) -> list[Lease]:
    """Wait for tasks, at most this many seconds."""
    mill, clock = lanes.mill, lanes.clock
    began = read = clock()
    deadline = began + seconds * 1000
    while True:
        leases = lanes.lease_from_all(worker, most)
        left = (deadline - clock()) // 1000
        if leases or left <= 0:
            return leases
        messages = lanes.wait(worker, most, min(left, ROUND_SECONDS))
        if not messages and clock() - read < _READ_MS:
            continue
        current, read = registry.read(mill, worker.id), clock()
        disconnected = current.seen < began and (
            clock() - began > _MISSED_HEARTBEATS * 1000 * heartbeat_seconds(mill, current, began)
        )
        if current.session != worker.session or not current.takes_tasks or disconnected:
            _release(mill, messages)
            if current.session == worker.session and not current.offline:
                return []
            raise _stale(worker)
        worker = current
        leases = lanes.lease(worker, messages, most) if messages else []
        if leases:
            return leases


@dataclass(slots=True)
class _Lanes:
    """The queues of a worker's groups, higher lanes first."""

    mill: Mill
    groups: list[GroupRow]
    clock: Callable[[], int]
    bounced_from: set[str] = field(default_factory=set)
    """The queues whose messages were left to other workers in this round."""

    def lease_from_all(self, worker: WorkerRow, most: int) -> list[Lease]:
        """Poll the queues without waiting, until there are enough tasks.

        In a group with several priorities, queues that were empty a moment ago are polled only if the others
        are empty: otherwise each task of a low priority would cost a call for each higher one.
        """
        self.bounced_from.clear()
        empty = self._known_empty(worker) if any(group.lane_table.mixed for group in self.groups) else {}
        leases: list[Lease] = []
        for group, queue in sorted(self.by_priority(), key=lambda lane: lane[1] in empty):
            if len(leases) == most or (leases and queue in empty):
                break
            free = most - len(leases)
            messages = self._receive(worker, group, queue, free, wait=0)
            if messages is None:
                break
            leases += self.lease(worker, messages, free) if messages else []
            if not messages:
                self.mill.empty_queues.put(queue, True, self.clock())
        return leases

    def _known_empty(self, worker: WorkerRow) -> Mapping[str, bool]:
        """The queues that were empty a moment ago, in the groups as they are now."""
        self._update_groups(worker)
        queues = [queue for group in self.groups for queue in group.queues]
        return self.mill.empty_queues.get(queues, lambda _: {}, self.clock())

    def _update_groups(self, worker: WorkerRow) -> bool:
        """Read the groups again if they are no longer cached; return whether their lanes changed."""
        before = [group.lane_table.order() for group in self.groups]
        self.groups = _active(group_rows(self.mill, worker.groups, self.clock())) or self.groups
        return before != [group.lane_table.order() for group in self.groups]

    def by_priority(self) -> list[tuple[GroupRow, str]]:
        lanes = [(group, *lane) for group in self.groups for lane in group.lane_table.order()]
        lanes.sort(key=lambda lane: lane[1], reverse=True)
        return [(group, group.queues[queue]) for group, _, queue in lanes]

    def wait(self, worker: WorkerRow, most: int, seconds: int) -> list[Message]:
        """Wait in the queue where work usually arrives, or in another if it was just left to others."""
        first = self.groups[0]
        places = [(first, first.queues[first.lane_table.usual_queue]), *self.by_priority()]
        free = [(group, queue) for group, queue in places if queue not in self.bounced_from]
        return self._receive(worker, *(free or places)[0], most, wait=seconds) or []

    def receive_and_lease(self, worker: WorkerRow, group: GroupRow, queue: str, most: int) -> list[Lease]:
        messages = self._receive(worker, group, queue, most, wait=0)
        return self.lease(worker, messages, most) if messages else []

    def lease(self, worker: WorkerRow, messages: list[Message], most: int) -> list[Lease]:
        session, bounced = WorkerSession.of(worker), list[Message]()
        try:
            leases = lease(self.mill, session, messages, self.clock(), bounced=bounced)
            if leases or not bounced:
                return leases
            hide = {queue: group.lease_seconds for group in self.groups for queue in group.queues}
            return lease_behind(self.mill, session, bounced, most=most, hide=hide, clock=self.clock)
        finally:
            self.bounced_from |= {message.queue for message in bounced}
            _release(self.mill, bounced)

    def _receive(
        self, worker: WorkerRow, group: GroupRow, queue: str, most: int, *, wait: int
    ) -> list[Message] | None:
        """Receive messages; None if lanes were added meanwhile, because a higher one may have tasks."""
        messages = self.mill.queues.receive(queue, most=most, wait=wait, hide=group.lease_seconds)
        _forget_outdated(self.mill, worker, messages, self.clock())
        if messages and self._update_groups(worker):
            self.mill.queues.hide((message, 0) for message in messages)
            return None
        return messages


def _active_groups(mill: Mill, worker: WorkerRow, now: int) -> list[GroupRow]:
    rows = group_rows(mill, worker.groups, now)
    if not rows:
        raise GroupNotFound(f"none of the worker groups {', '.join(worker.groups)} exists")
    groups = _active(rows)
    if not groups:
        raise WorkerSuspended(f"worker {worker.name!r} takes no tasks: {suspension_reasons(rows)}")
    return groups


def _active(rows: Mapping[str, GroupRow]) -> list[GroupRow]:
    return [row for row in rows.values() if not row.suspended]


def _stale(worker: WorkerRow) -> StaleSession:
    return StaleSession(
        f"worker {worker.name!r} has deregistered or was registered again; register it to get a new session"
    )
