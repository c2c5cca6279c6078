"""Lease over HTTP: look into every lane once a second, and long-poll the normal lane meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shardmill.aws.queues import LANES, Message
from shardmill.engine.errors import GroupNotFound, StaleSession, WorkerSuspended
from shardmill.engine.groups.matching import WorkerSession, group_rows, suspension_reasons
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.lease import lease, lease_behind
from shardmill.engine.workers import registry
from shardmill.engine.workers.registry import heartbeat_seconds
from shardmill.model.worker import MAX_HELD, Lease, LeaseRequest
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally

NORMAL_LANE = LANES.index("normal")
ROUND_SECONDS = 1
_READ_MS = 5_000  # how often the worker's row is read while no messages arrive
_MISSED_HEARTBEATS = (
    1.5  # a caller that sent no heartbeat for so many intervals may be gone: lease it nothing
)


def pull(mill: Mill, request: LeaseRequest, clock: Callable[[], int]) -> list[Lease]:
    """Lease up to `max` tasks for a worker; wait up to `waitSeconds` while there are none."""
    worker = registry.read(mill, request.worker_id)
    if worker.offline or request.session not in (None, worker.session):
        raise _stale(worker)
    if not worker.takes_tasks:
        raise WorkerSuspended(f"worker {worker.name!r} takes no tasks: {worker.notes or worker.tired}")
    if len(worker.work) >= MAX_HELD:
        raise WorkerSuspended(
            f"worker {worker.name!r} holds {len(worker.work)} tasks and takes no more; report or release some"
        )
    began = read = clock()
    lanes = _Lanes(mill, _active_groups(mill, worker, began), clock)
    deadline = began + request.wait_seconds * 1000
    while True:
        leases = lanes.lease_from_all(worker, request.max)
        left = (deadline - clock()) // 1000
        if leases or left <= 0:
            return _record(mill, worker, leases, clock())
        messages = lanes.wait(request.max, min(left, ROUND_SECONDS))
        if not messages and clock() - read < _READ_MS:
            continue
        current, read = registry.read(mill, worker.id), clock()
        disconnected = current.seen < began and (
            clock() - began > _MISSED_HEARTBEATS * 1000 * heartbeat_seconds(mill, current, began)
        )
        if current.session != worker.session or not current.takes_tasks or disconnected:
            mill.queues.hide((message, 0) for message in messages)
            if current.session == worker.session and not current.offline:
                return []
            raise _stale(worker)
        worker = current
        leases = lanes.lease(worker, messages, request.max) if messages else []
        if leases:
            return _record(mill, worker, leases, clock())


@dataclass(slots=True)
class _Lanes:
    """The queues of a worker's groups, higher lanes first."""

    mill: Mill
    groups: list[GroupRow]
    clock: Callable[[], int]
    bounced_from: set[str] = field(default_factory=set)
    """The queues whose messages were left to other workers in this round."""

    def lease_from_all(self, worker: WorkerRow, most: int) -> list[Lease]:
        """Look into every queue without waiting."""
        self.bounced_from.clear()
        leases: list[Lease] = []
        for lane in range(len(LANES)):
            for group in self.groups:
                if len(leases) < most:
                    free = most - len(leases)
                    messages = self._receive(group, lane, free, wait=0)
                    leases += self.lease(worker, messages, free) if messages else []
        return leases

    def wait(self, most: int, seconds: int) -> list[Message]:
        """Wait in the queue where work usually arrives, or in another if it was just left to others."""
        places = [(self.groups[0], lane) for lane in (NORMAL_LANE, *range(len(LANES)))]
        free = [place for place in places if place[0].queues[place[1]] not in self.bounced_from]
        return self._receive(*(free or places)[0], most, wait=seconds)

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
            if bounced:
                self.mill.queues.hide((message, 0) for message in bounced)

    def _receive(self, group: GroupRow, lane: int, most: int, *, wait: int) -> list[Message]:
        return self.mill.queues.receive(group.queues[lane], most=most, wait=wait, hide=group.lease_seconds)


def _active_groups(mill: Mill, worker: WorkerRow, now: int) -> list[GroupRow]:
    rows = group_rows(mill, worker.groups, now)
    if not rows:
        raise GroupNotFound(f"none of the worker groups {', '.join(worker.groups)} exists")
    groups = [row for row in rows.values() if not row.suspended]
    if not groups:
        raise WorkerSuspended(f"worker {worker.name!r} takes no tasks: {suspension_reasons(rows)}")
    return groups


def _record(mill: Mill, worker: WorkerRow, leases: list[Lease], now: int) -> list[Lease]:
    if leases:
        tally = Tally(checkout=len(leases))
        record_totals(mill, worker.id, tally, now, taken=[task.task_id for task in leases])
    return leases


def _stale(worker: WorkerRow) -> StaleSession:
    return StaleSession(
        f"worker {worker.name!r} has deregistered or was registered again; register it to get a new session"
    )
