"""/v1/workers: registration, heartbeats and control of workers."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, NO_REASON, ReasonBody, actor, no_content, now, source_ip, visible
from shardmill.engine.groups.matching import can_run
from shardmill.engine.mill import mill
from shardmill.engine.views.workers import heartbeat_answer, registered_view, worker_view
from shardmill.engine.workers import registry
from shardmill.engine.workers.ownership import check_owner
from shardmill.model.worker import (
    Heartbeat,
    HeartbeatAnswer,
    RegisteredWorker,
    Registration,
    Worker,
    WorkerStatus,
)
from shardmill.store.rows import WorkerRow

MAX_WORKERS_SCANNED = 2_000
Force = Annotated[bool, Query()]


def _view(row: WorkerRow) -> Worker:
    return worker_view(mill(), row, now())


def register(registration: Annotated[Registration, Body()]) -> Response[RegisteredWorker]:
    """Register a worker; a worker of the same name gets the same id with a new session."""
    row = registry.register(mill(), registration, now(), source_ip=source_ip(), actor=actor())
    headers = {"location": f"/v1/workers/{row.id}"}
    body = registered_view(mill(), row, now())
    return Response(status_code=201, content_type=JSON, body=body, headers=headers)


def list_workers(
    group: Annotated[str | None, Query()] = None,
    status: Annotated[WorkerStatus | None, Query(description="0 offline … 3 online")] = None,
    busy: Annotated[bool | None, Query()] = None,
    app: Annotated[str | None, Query(description="only workers that can run this command")] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[Worker]:
    """List the workers that registered within the last 30 days."""
    rows = mill().workers.page(after=pagination.decode_cursor(cursor, str), limit=limit + 1)

    seen = visible()

    def matches(worker: Worker) -> bool:
        return (
            (group is None or group in worker.groups)
            and (status is None or worker.status is status)
            and (busy is None or (worker.remain_tasks > 0) is busy)
            and (app is None or can_run(worker.apps, app))
            and seen.groups(worker.groups)
        )

    views = ((row.id, _view(row)) for row in rows)
    found = ((place, view if matches(view) else None) for place, view in views)
    return pagination.page(found, limit, max_scanned=MAX_WORKERS_SCANNED, look_ahead=not seen.all)


def read_worker(worker_id: str) -> Worker:
    return _view(registry.read(mill(), worker_id))


def forget_worker(worker_id: str, force: Force = False) -> Response[None]:
    """Delete a worker. A live one only if `force` is set; it stops at its next heartbeat."""
    registry.delete(mill(), worker_id, now(), force=force)
    return no_content()


def drain_worker(worker_id: str, request: ReasonBody = NO_REASON) -> Worker:
    """Drain a worker: it finishes its tasks, leases no more, and exits."""
    return _view(registry.drain(mill(), worker_id, actor(), request.reason))


def suspend_worker(worker_id: str, request: ReasonBody = NO_REASON) -> Worker:
    """Suspend a worker: it finishes its tasks and leases no more until it is resumed."""
    return _view(registry.suspend(mill(), worker_id, actor(), request.reason))


def resume_worker(worker_id: str, request: ReasonBody = NO_REASON) -> Worker:
    """Resume a worker, whether an operator or its failures suspended it."""
    return _view(registry.resume(mill(), worker_id, now()))


def heartbeat(worker_id: str, beat: Annotated[Heartbeat, Body()]) -> HeartbeatAnswer:
    """Renew the leases of a worker's tasks; the response lists tasks that it must drop."""
    check_owner(mill(), actor(), worker_id, now())
    result = registry.heartbeat(
        mill(),
        worker_id,
        beat.session,
        beat.work,
        offline=beat.offline,
        now=now(),
        source_ip=source_ip(),
    )
    return heartbeat_answer(mill(), result, now(), tag=beat.lanes)
