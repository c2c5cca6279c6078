"""/v1/groups, /v1/workers and /v1/work"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, NO_REASON, Why, actor, no_content, now
from shardmill.engine.errors import (
    FileUnavailable,
    ForeignAttempt,
    MillError,
    StaleAttempt,
    TaskNotFound,
    WrongGroup,
)
from shardmill.engine.files import logs
from shardmill.engine.files.held_attempt import holding
from shardmill.engine.groups import groups
from shardmill.engine.groups.matching import runs
from shardmill.engine.groups.totals import count
from shardmill.engine.mill import mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.report import report
from shardmill.engine.views.workers import heartbeat_answer, worker_view
from shardmill.engine.workers import registry
from shardmill.model.base import Answer, Count, Model, from_ms
from shardmill.model.transfers import CompleteRequest, Prepared, StoreAnswer, StoreRequest
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
    WorkerStatus,
)
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally

MOST_WORKERS_LOOKED_AT = 2_000
MOST_ANSWERED_BYTES = 5_000_000
_ABOUT_A_FILE = 350
_UNCOUNTED: dict[str, tuple[type[MillError], str]] = {
    "stale-attempt": (StaleAttempt, "the attempt is over, or a newer one has these tasks"),
    "foreign-attempt": (ForeignAttempt, "another worker, or none, holds these tasks"),
    "wrong-group": (WrongGroup, "these tasks belong to groups that the worker is not in"),
    "unknown-task": (TaskNotFound, "there are no such tasks"),
}

router = APIGatewayHttpRouter()

Force = Annotated[bool, Query()]


class UrlsRequest(Model):
    """What a worker wants for an attempt that it holds: one of these.

    To store its log (`stream`, from chunk `first` on so many `chunks`), to fetch what it needs (`prepare`),
    to store outputs (`store`), or to complete one that was stored in parts (`complete`).
    """

    worker_id: str
    task_id: str
    attempt: Count
    run: Count
    stream: Literal["stdout", "stderr"] | None = None
    first: int = Field(default=0, ge=0, le=100_000)
    chunks: int = Field(default=1, ge=1, le=1000)
    prepare: bool = False
    store: list[StoreRequest] = Field(default_factory=list, max_length=100)
    complete: CompleteRequest | None = None

    @model_validator(mode="after")
    def _one_wish(self) -> Self:
        wishes = [self.stream is not None, self.prepare, bool(self.store), self.complete is not None]
        if wishes.count(True) != 1:
            raise PydanticCustomError("missing-field", "asks for one of stream, prepare, store, complete")
        return self


class UploadUrl(Answer):
    chunk: int
    url: str


class UrlsAnswer(Answer):
    """`items` are for a log; `prepared` and `stored` for files."""

    items: list[UploadUrl] = Field(default_factory=list)
    prepared: Prepared | None = None
    stored: list[StoreAnswer] | None = None


def _group(row: GroupRow, everything: str = "") -> WorkerGroup:
    return WorkerGroup(
        id=row.name,
        name=row.name,
        kind=row.kind,
        lease_seconds=row.lease_seconds,
        types=row.types,
        suspended=row.suspended or everything or None,
        create_time=from_ms(row.create_time),
        update_time=from_ms(row.update_time),
    )


def _view(row: WorkerRow) -> Worker:
    return worker_view(mill(), row, now())


@router.put("/v1/groups/<name>", tags=["workers"])
def save_group(name: str, group: Annotated[GroupRequest, Body()]) -> Response[WorkerGroup]:
    """Make a worker group with its queues, or change it."""
    row, new = groups.save(mill(), name, group, now())
    return Response(
        status_code=201 if new else 200, content_type=JSON, body=_group(row, mill().groups.every().suspended)
    )


@router.get("/v1/groups/<name>", tags=["workers"])
def read_group(name: str) -> WorkerGroup:
    return _group(groups.read(mill(), name), mill().groups.every().suspended)


@router.delete("/v1/groups/<name>", tags=["workers"])
def delete_group(name: str, force: Force = False) -> Response[None]:
    """Delete a group and its queues; refused while Jobs that have not ended need it, unless forced."""
    groups.delete(mill(), name, force=force)
    return no_content()


@router.get("/v1/groups", tags=["workers"])
def list_groups(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[WorkerGroup]:
    rows = mill().groups.page(after=pagination.place_of(router, cursor, str), limit=limit + 1)
    everything = mill().groups.every().suspended
    return pagination.page(router, ((row.name, _group(row, everything)) for row in rows), limit)


@router.post("/v1/groups/<name>:suspend", tags=["workers"])
def suspend_group(name: str, why: Why = NO_REASON) -> WorkerGroup:
    """Have nobody take tasks of a group until it is resumed; those that run go on to their end."""
    return _group(groups.suspend(mill(), name, actor(router), why.reason))


@router.post("/v1/groups/<name>:resume", tags=["workers"])
def resume_group(name: str, why: Why = NO_REASON) -> WorkerGroup:
    """Let tasks of a group be taken again."""
    return _group(groups.resume(mill(), name), mill().groups.every().suspended)


@router.post("/v1/groups:suspend", tags=["workers"])
def suspend_all_groups(why: Why = NO_REASON) -> Response[None]:
    """Have nobody take any task until everything is resumed, also in groups that are made later."""
    groups.suspend_all(mill(), actor(router), why.reason)
    return no_content()


@router.post("/v1/groups:resume", tags=["workers"])
def resume_all_groups(why: Why = NO_REASON) -> Response[None]:
    """Let tasks be taken again; a group that was suspended by itself stays so."""
    groups.resume_all(mill())
    return no_content()


@router.post("/v1/workers", tags=["workers"])
def register(registration: Annotated[Registration, Body()]) -> Response[Worker]:
    """Register a worker; one of the same name takes its identity back with a new session."""
    row = registry.register(mill(), registration, now())
    headers = {"location": f"/v1/workers/{row.id}"}
    return Response(status_code=201, content_type=JSON, body=_view(row), headers=headers)


@router.get("/v1/workers", tags=["workers"])
def list_workers(
    group: Annotated[str | None, Query()] = None,
    status: Annotated[WorkerStatus | None, Query(description="0 offline … 3 online")] = None,
    busy: Annotated[bool | None, Query()] = None,
    app: Annotated[str | None, Query(description="a command that it must be able to run")] = None,
    limit: Limit = pagination.DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[Worker]:
    """The workers that registered within the last 30 days."""
    rows = mill().workers.page(after=pagination.place_of(router, cursor, str), limit=limit + 1)

    def fits(worker: Worker) -> bool:
        return (
            (group is None or group in worker.groups)
            and (status is None or worker.status is status)
            and (busy is None or (worker.remain_tasks > 0) is busy)
            and (app is None or runs(worker.apps, app))
        )

    views = ((row.id, _view(row)) for row in rows)
    found = ((place, view if fits(view) else None) for place, view in views)
    return pagination.page(router, found, limit, looks=MOST_WORKERS_LOOKED_AT)


@router.get("/v1/workers/<worker_id>", tags=["workers"])
def read_worker(worker_id: str) -> Worker:
    return _view(registry.read(mill(), worker_id))


@router.delete("/v1/workers/<worker_id>", tags=["workers"])
def forget_worker(worker_id: str, force: Force = False) -> Response[None]:
    """Forget a worker; one that is alive only if forced: it is told to stop at its next heartbeat."""
    registry.forget(mill(), worker_id, now(), force=force)
    return no_content()


@router.post("/v1/workers/<worker_id>:drain", tags=["workers"])
def drain_worker(worker_id: str, why: Why = NO_REASON) -> Worker:
    """Have a worker finish what it holds, take nothing more, and leave."""
    return _view(registry.drain(mill(), worker_id, actor(router), why.reason))


@router.post("/v1/workers/<worker_id>:suspend", tags=["workers"])
def suspend_worker(worker_id: str, why: Why = NO_REASON) -> Worker:
    """Have a worker take nothing more until it is resumed; what it holds it may finish."""
    return _view(registry.suspend(mill(), worker_id, actor(router), why.reason))


@router.post("/v1/workers/<worker_id>:resume", tags=["workers"])
def resume_worker(worker_id: str, why: Why = NO_REASON) -> Worker:
    """Let a worker take tasks again, whoever or whatever stopped it."""
    return _view(registry.resume(mill(), worker_id, now()))


@router.post("/v1/workers/<worker_id>:heartbeat", tags=["workers"])
def heartbeat(worker_id: str, beat: Annotated[Heartbeat, Body()]) -> HeartbeatAnswer:
    """Say that a worker lives and what it holds; the answer names what it should let go."""
    result = registry.heartbeat(mill(), worker_id, beat.session, beat.work, offline=beat.offline, now=now())
    return heartbeat_answer(mill(), result, now())


@router.post("/v1/work:report", tags=["work"])
def report_work(request: Annotated[ReportRequest, Body()]) -> ReportAnswer:
    """Report attempts; refused with the code of the first if none of them counts, e.g. `stale-attempt`."""
    worker = registry.read(mill(), request.worker_id)
    tally = Tally()
    reported = report(
        mill(), worker.id, request.results, now(), groups=worker.groups, tally=tally, trusted=False
    )
    if tally.done or tally.skip:
        count(mill(), worker.id, tally, now())
    if all(item.status not in ("ok", "already") for item in reported):
        items = [item.model_dump(mode="json") for item in reported]
        error, detail = _UNCOUNTED[reported[0].status]
        raise error(detail, extra={"items": items})
    return ReportAnswer(items=reported)


@router.post("/v1/work:release", tags=["work"])
def release_work(request: Annotated[HandBackRequest, Body()]) -> HandBackAnswer:
    """Give tasks back that a worker which stops cannot finish; they count as nothing."""
    worker = registry.read(mill(), request.worker_id)
    given = hand_back(mill(), worker.id, request.tasks, now())
    if given:
        count(mill(), worker.id, Tally(done=set(given)), now())
    return HandBackAnswer(items=given)


def _answerable(prepared: Prepared) -> Prepared:
    """A function answers six megabytes at most."""
    size = sum(len(file.url) + 2 * len(file.name) + _ABOUT_A_FILE for file in prepared.files)
    if size > MOST_ANSWERED_BYTES:
        raise FileUnavailable(
            f"the task reads {len(prepared.files)} files, more than one answer can name: join them in "
            "several tasks first, or run it on a worker that goes straight to AWS"
        )
    return prepared


@router.post("/v1/work:urls", tags=["work"])
def urls(request: Annotated[UrlsRequest, Body()]) -> UrlsAnswer:
    """Presigned addresses, for fifteen minutes, of an attempt's log and files, for its worker only."""
    held = holding(mill(), request.worker_id, request.task_id, request.attempt, request.run)
    if request.stream:
        chunks = range(request.first, request.first + request.chunks)
        found = logs.upload_urls(mill(), held, request.stream, chunks)
        return UrlsAnswer(items=[UploadUrl.model_validate(item) for item in found])
    from shardmill.engine.files import presign  # few tasks have any

    if request.prepare:
        return UrlsAnswer(prepared=_answerable(presign.prepare(mill(), held)))
    if request.complete:
        done = request.complete
        presign.complete(mill(), held, done.name, done.upload_id, done.etags)
        return UrlsAnswer()
    return UrlsAnswer(stored=presign.store(mill(), held, request.store))
