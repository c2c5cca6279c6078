"""Lease over HTTP: receive from every lane, then long-poll the normal lane."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.aws.queues import LANES
from shardmill.engine.errors import GroupNotFound, StaleSession, WorkerSuspended
from shardmill.engine.groups.matching import WorkerSession, group_rows, suspension_reasons
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.lease import lease
from shardmill.engine.workers import registry
from shardmill.engine.workers.registry import heartbeat_seconds
from shardmill.model.worker import MAX_HELD, Lease, LeaseRequest
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally

NORMAL_LANE = LANES.index("normal")
ROUND_SECONDS = 5
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
    groups = _active_groups(mill, worker, clock())
    began = clock()
    deadline = began + request.wait_seconds * 1000
    while True:
        leases = _lease_from_lanes(mill, worker, groups, request.max, clock)
        left = (deadline - clock()) // 1000
        if leases or left <= 0:
            return _record(mill, worker, leases, clock())
        group = groups[0]
        wait = min(left, ROUND_SECONDS)
        messages = mill.queues.receive(
            group.queues[NORMAL_LANE], most=request.max, wait=wait, hide=group.lease_seconds
        )
        current = registry.read(mill, worker.id)
        disconnected = current.seen < began and (
            clock() - began > _MISSED_HEARTBEATS * 1000 * heartbeat_seconds(mill, current, began)
        )
        if current.session != worker.session or not current.takes_tasks or disconnected:
            mill.queues.hide((message, 0) for message in messages)
            if current.session == worker.session and not current.offline:
                return []
            raise _stale(worker)
        worker = current
        leases = lease(mill, WorkerSession.of(worker), messages, clock()) if messages else []
        if leases:
            return _record(mill, worker, leases, clock())


def _active_groups(mill: Mill, worker: WorkerRow, now: int) -> list[GroupRow]:
    rows = group_rows(mill, worker.groups, now)
    if not rows:
        raise GroupNotFound(f"none of the worker groups {', '.join(worker.groups)} exists")
    groups = [row for row in rows.values() if not row.suspended]
    if not groups:
        raise WorkerSuspended(f"worker {worker.name!r} takes no tasks: {suspension_reasons(rows)}")
    return groups


def _lease_from_lanes(
    mill: Mill, worker: WorkerRow, groups: list[GroupRow], most: int, clock: Callable[[], int]
) -> list[Lease]:
    leases: list[Lease] = []
    for lane in range(len(LANES)):
        for group in groups:
            if len(leases) < most:
                free = most - len(leases)
                messages = mill.queues.receive(
                    group.queues[lane], most=free, wait=0, hide=group.lease_seconds
                )
                leases += lease(mill, WorkerSession.of(worker), messages, clock()) if messages else []
    return leases


def _record(mill: Mill, worker: WorkerRow, leases: list[Lease], now: int) -> list[Lease]:
    if leases:
        tally = Tally(checkout=len(leases))
        record_totals(mill, worker.id, tally, now, taken=[task.task_id for task in leases])
    return leases


def _stale(worker: WorkerRow) -> StaleSession:
    return StaleSession(
        f"worker {worker.name!r} has deregistered or was registered again; register it to get a new session"
    )
