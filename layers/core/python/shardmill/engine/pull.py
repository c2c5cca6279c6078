"""Leasing over HTTP: look into every lane, then wait where work usually comes."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.aws.queues import LANES
from shardmill.engine import workers
from shardmill.engine.enqueue import group_rows
from shardmill.engine.errors import StaleSession
from shardmill.engine.lease import lease
from shardmill.engine.mill import Mill
from shardmill.model.worker import Lease, LeaseRequest
from shardmill.store.rows import GroupRow, WorkerRow

USUAL_LANE = LANES.index("normal")
ROUND_SECONDS = 5


def pull(mill: Mill, request: LeaseRequest, clock: Callable[[], int]) -> list[Lease]:
    """Lease up to `max` tasks for a worker, waiting for them if there are none yet."""
    worker = workers.read(mill, request.worker_id)
    if worker.offline or request.session not in (None, worker.session):
        raise _stale(worker)
    groups = list(group_rows(mill, worker.groups, clock()).values())
    deadline = clock() + request.wait_seconds * 1000
    while True:
        leases = _look(mill, worker, groups, request.max, clock)
        left = (deadline - clock()) // 1000
        if leases or left <= 0 or not groups:
            return leases
        group = groups[0]
        wait = min(left, ROUND_SECONDS)
        messages = mill.queues.receive(
            group.queues[USUAL_LANE], most=request.max, wait=wait, hide=group.lease_seconds
        )
        present = workers.read(mill, worker.id)
        if present.offline or present.session != worker.session:
            mill.queues.hide((message, 0) for message in messages)
            raise _stale(worker)
        if messages:
            return lease(mill, worker.reference, messages, clock())


def _look(
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
                leases += lease(mill, worker.reference, messages, clock()) if messages else []
    return leases


def _stale(worker: WorkerRow) -> StaleSession:
    return StaleSession(f"worker {worker.name!r} said good-bye or was registered again since; register again")
