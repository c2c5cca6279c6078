"""/v1/groups, /v1/workers and /v1/work"""

from __future__ import annotations

from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import Field

from shardmill.api import pages
from shardmill.api.answers import JSON, no_content, now
from shardmill.api.pages import Cursor, Limit, Page
from shardmill.engine import groups, logs, workers
from shardmill.engine.errors import StaleAttempt, TaskNotFound
from shardmill.engine.hand_back import hand_back
from shardmill.engine.mill import mill
from shardmill.engine.report import report
from shardmill.engine.view_workers import worker_view
from shardmill.model.base import Answer, Count, Model, from_ms
from shardmill.model.worker import (
    GroupRequest,
    HandBackAnswer,
    HandBackRequest,
    Heartbeat,
    HeartbeatAnswer,
    Registration,
    ReportAnswer,
    ReportRequest,
    Worker,
    WorkerGroup,
)
from shardmill.store.rows import GroupRow

router = APIGatewayHttpRouter()


class UrlsRequest(Model):
    """A worker wants to store the log of an attempt it holds, in so many chunks."""

    worker_id: str
    task_id: str
    attempt: Count
    run: Count
    stream: Literal["stdout", "stderr"]
    chunks: int = Field(ge=1, le=1000)


class UploadUrl(Answer):
    chunk: int
    url: str


class UrlsAnswer(Answer):
    items: list[UploadUrl]


def _group(row: GroupRow) -> WorkerGroup:
    return WorkerGroup(
        id=row.name,
        name=row.name,
        kind=row.kind,
        lease_seconds=row.lease_seconds,
        types=row.types,
        create_time=from_ms(row.create_time),
        update_time=from_ms(row.update_time),
    )


@router.put("/v1/groups/<name>", tags=["workers"])
def save_group(name: str, group: Annotated[GroupRequest, Body()]) -> Response[WorkerGroup]:
    """Make a worker group with its queues, or change it."""
    row, new = groups.save(mill(), name, group, now())
    return Response(status_code=201 if new else 200, content_type=JSON, body=_group(row))


@router.get("/v1/groups/<name>", tags=["workers"])
def read_group(name: str) -> WorkerGroup:
    return _group(groups.read(mill(), name))


@router.delete("/v1/groups/<name>", tags=["workers"])
def delete_group(name: str) -> Response[None]:
    groups.delete(mill(), name)
    return no_content()


@router.get("/v1/groups", tags=["workers"])
def list_groups(limit: Limit = pages.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[WorkerGroup]:
    found = mill().groups.page(after=pages.decode(cursor, str), limit=limit + 1)
    listed, more = pages.cut(found, limit)
    return Page(items=[_group(row) for row in listed], cursor=pages.encode(listed[-1].name) if more else None)


@router.post("/v1/workers", tags=["workers"])
def register(registration: Annotated[Registration, Body()]) -> Response[Worker]:
    """Register a worker; one of the same name takes its identity back with a new session."""
    row = workers.register(mill(), registration, now())
    body = worker_view(mill(), row, now())
    return Response(
        status_code=201, content_type=JSON, body=body, headers={"location": f"/v1/workers/{row.id}"}
    )


@router.get("/v1/workers", tags=["workers"])
def list_workers(limit: Limit = pages.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[Worker]:
    found = mill().workers.page(after=pages.decode(cursor, str), limit=limit + 1)
    listed, more = pages.cut(found, limit)
    return Page(
        items=[worker_view(mill(), row, now()) for row in listed],
        cursor=pages.encode(listed[-1].id) if more else None,
    )


@router.get("/v1/workers/<worker_id>", tags=["workers"])
def read_worker(worker_id: str) -> Worker:
    return worker_view(mill(), workers.read(mill(), worker_id), now())


@router.post("/v1/workers/<worker_id>:heartbeat", tags=["workers"])
def heartbeat(worker_id: str, beat: Annotated[Heartbeat, Body()]) -> HeartbeatAnswer:
    """Say that a worker lives and what it holds; the answer names what it should let go."""
    result = workers.heartbeat(mill(), worker_id, beat.session, beat.work, offline=beat.offline, now=now())
    view = worker_view(mill(), result.worker, now())
    return HeartbeatAnswer(drop=result.drop, status=view.status, heartbeat_seconds=view.heartbeat_seconds)


@router.post("/v1/work:report", tags=["work"])
def report_work(request: Annotated[ReportRequest, Body()]) -> ReportAnswer:
    """Report attempts; 409 `stale-attempt` if none of them counts."""
    workers.read(mill(), request.worker_id)
    reported = report(mill(), request.worker_id, request.results, now())
    if all(item.status not in ("ok", "already") for item in reported):
        items = [item.model_dump(mode="json") for item in reported]
        if any(item.status == "stale-attempt" for item in reported):
            raise StaleAttempt("a newer attempt or another worker has these tasks", extra={"items": items})
        raise TaskNotFound("there are no such tasks", extra={"items": items})
    return ReportAnswer(items=reported)


@router.post("/v1/work:release", tags=["work"])
def release_work(request: Annotated[HandBackRequest, Body()]) -> HandBackAnswer:
    """Give tasks back that a worker which stops cannot finish; they count as nothing."""
    workers.read(mill(), request.worker_id)
    return HandBackAnswer(items=hand_back(mill(), request.worker_id, request.tasks, now()))


@router.post("/v1/work:urls", tags=["work"])
def urls(request: Annotated[UrlsRequest, Body()]) -> UrlsAnswer:
    """Presigned addresses, for fifteen minutes, under which a worker stores the log of an attempt."""
    found = logs.upload_urls(
        mill(),
        request.worker_id,
        request.task_id,
        request.attempt,
        request.run,
        request.stream,
        request.chunks,
    )
    return UrlsAnswer(items=[UploadUrl.model_validate(item) for item in found])
