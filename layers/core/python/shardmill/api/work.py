"""/v1/work: reports, releases, file URLs and checkpoints of leased tasks; the lease itself is in `lease`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, Literal, Self

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.api.responses import actor, now
from shardmill.aws.clock import now_ms
from shardmill.engine.access.receipts import verified
from shardmill.engine.errors import (
    FileUnavailable,
    ForeignAttempt,
    MillError,
    StaleAttempt,
    TaskNotFound,
    WrongGroup,
)
from shardmill.engine.files import logs
from shardmill.engine.files.held_attempt import get_held_attempt
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.report import report
from shardmill.engine.workers import registry
from shardmill.engine.workers.ownership import check_owner
from shardmill.model.base import Answer, Count, Request
from shardmill.model.json_schema import EMPTY, NOT_EMPTY, NOT_NULL, NULL, either, where
from shardmill.model.transfers import (
    MAX_CHECKPOINT_BYTES,
    CompleteRequest,
    Prepared,
    StoreAnswer,
    StoreRequest,
)
from shardmill.model.worker import (
    HandBackAnswer,
    HandBackRequest,
    HandedBack,
    LeaseRefusal,
    LeaseRequest,
    NextLease,
    ReportAnswer,
    Reported,
    ReportRequest,
    Result,
    WorkerId,
)
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally

MAX_RESPONSE_BYTES = 5_000_000
_BYTES_PER_FILE = 350
_REJECTED: dict[str, tuple[type[MillError], str]] = {
    "stale-attempt": (StaleAttempt, "the attempt has ended, or a newer attempt has the task"),
    "foreign-attempt": (ForeignAttempt, "the worker does not hold these tasks"),
    "wrong-group": (WrongGroup, "the worker is not in the groups of these tasks"),
    "unknown-task": (TaskNotFound, "the tasks do not exist"),
}


_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==|[A-Za-z0-9+/]=))?$"
Base64 = Annotated[str, Field(max_length=-(-MAX_CHECKPOINT_BYTES // 3) * 4, pattern=_BASE64)]
_USED = {"stream": NOT_NULL, "prepare": {"const": True}, "store": NOT_EMPTY, "complete": NOT_NULL}
_UNUSED = {"stream": NULL, "prepare": {"const": False}, "store": EMPTY, "complete": NULL}


class UrlsRequest(Request):
    """The purpose of the URLs of an attempt: exactly one of four.

    To store its log (`stream`, with `chunks` chunks from chunk `first`), to fetch its inputs (`prepare`),
    to store outputs (`store`), or to complete a multipart upload (`complete`).
    """

    model_config = ConfigDict(
        json_schema_extra=either(
            *(
                {"required": [purpose], **where(**{**_UNUSED, purpose: used})}
                for purpose, used in _USED.items()
            )
        )
    )

    worker_id: WorkerId
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
    def _one_purpose(self) -> Self:
        purposes = [self.stream is not None, self.prepare, bool(self.store), self.complete is not None]
        if purposes.count(True) != 1:
            raise PydanticCustomError(
                "missing-field", "needs exactly one of stream, prepare, store, complete"
            )
        return self


class UploadUrl(Answer):
    chunk: int
    url: str


class UrlsAnswer(Answer):
    """`items` are for a log; `prepared` and `stored` for files."""

    items: list[UploadUrl] = Field(default_factory=list)
    prepared: Prepared | None = None
    stored: list[StoreAnswer] | None = None


class CheckpointRequest(Request):
    """Saves `data` as the checkpoint of an attempt; without it, requests the checkpoint of an earlier
    attempt."""

    worker_id: WorkerId
    task_id: str
    attempt: Count
    run: Count
    data: Base64 | None = None


class CheckpointAnswer(Answer):
    """`data` is null if no earlier attempt of this run saved a checkpoint, or if one was saved."""

    data: Base64 | None = None


def report_work(request: Annotated[ReportRequest, Body()]) -> ReportAnswer:
    """Report attempts, and lease the next tasks. If all are rejected, the response has the code of the first.

    Together with a lease, the report succeeds even then; its items show which were rejected.
    """
    check_owner(mill(), actor(), request.worker_id, now())
    worker = registry.read(mill(), request.worker_id)
    tally = Tally()
    results = [
        result.model_copy(update={"receipt": _receipt(result, worker.id)}) for result in request.results
    ]
    reported = report(mill(), worker.id, results, now(), groups=worker.groups, tally=tally, trusted=False)
    if tally.done or tally.skip:
        worker = record_totals(mill(), worker.id, tally, now()) or worker
    if request.lease:
        return _lease_next(worker, request.lease, reported)
    if all(item.status not in ("ok", "already") for item in reported):
        items = [item.model_dump(mode="json") for item in reported]
        error, detail = _REJECTED[reported[0].status]
        raise error(detail, extra={"items": items})
    return ReportAnswer(items=reported)


def _receipt(given: Result | HandedBack, worker_id: str) -> str | None:
    """The receipt of a task; None if it was not issued to this worker for this task: then the rows decide."""
    key = mill().settings.token_key
    return verified(given.receipt, given.task_id, worker_id, key) if given.receipt else None


def _lease_next(worker: WorkerRow, wanted: NextLease, reported: list[Reported]) -> ReportAnswer:
    """Lease after a report; if that is refused, the answer still confirms that the results were recorded."""
    # imported here because not every report needs it
    from shardmill.api.lease import signed_answer
    from shardmill.engine.workers.poll import pull

    request = LeaseRequest(worker_id=worker.id, **dict(wanted))
    try:
        pulled = pull(mill(), request, now_ms, worker=worker)
    except MillError as error:
        return ReportAnswer(items=reported, refused=LeaseRefusal(code=error.code, detail=error.detail))
    return ReportAnswer(items=reported, lease=signed_answer(pulled, worker.id))


def release_work(request: Annotated[HandBackRequest, Body()]) -> HandBackAnswer:
    """Release tasks that a stopping worker cannot finish; their attempts do not count as failures."""
    check_owner(mill(), actor(), request.worker_id, now())
    worker = registry.read(mill(), request.worker_id)
    tasks = [task.model_copy(update={"receipt": _receipt(task, worker.id) or ""}) for task in request.tasks]
    released = hand_back(mill(), worker.id, tasks, now())
    if released:
        record_totals(mill(), worker.id, Tally(done=set(released)), now())
    return HandBackAnswer(items=released)


def _check_size(prepared: Prepared) -> Prepared:
    """Raise if the answer would be larger than a Lambda response can be."""
    size = sum(len(file.url) + 2 * len(file.name) + _BYTES_PER_FILE for file in prepared.files)
    if size > MAX_RESPONSE_BYTES:
        raise FileUnavailable(
            f"the task reads {len(prepared.files)} files, too many for one response; join them in "
            "several tasks first, or run the task on a worker that uses AWS directly"
        )
    return prepared


def urls(request: Annotated[UrlsRequest, Body()]) -> UrlsAnswer:
    """Presign URLs, valid for fifteen minutes, for the log and files of an attempt that the worker holds."""
    check_owner(mill(), actor(), request.worker_id, now())
    held = get_held_attempt(mill(), request.worker_id, request.task_id, request.attempt, request.run)
    if request.stream:
        chunks = range(request.first, request.first + request.chunks)
        found = logs.upload_urls(mill(), held, request.stream, chunks)
        return UrlsAnswer(items=[UploadUrl.model_validate(item) for item in found])
    from shardmill.engine.files import presign  # imported here because few tasks have files

    if request.prepare:
        return UrlsAnswer(prepared=_check_size(presign.prepare(mill(), held)))
    if request.complete:
        done = request.complete
        presign.complete(mill(), held, done.name, done.upload_id, done.etags)
        return UrlsAnswer()
    return UrlsAnswer(stored=presign.store(mill(), held, request.store))


def checkpoint(request: Annotated[CheckpointRequest, Body()]) -> CheckpointAnswer:
    """Save the checkpoint of an attempt that the worker holds, or get the one of an earlier attempt."""
    from shardmill.engine.files import checkpoints  # imported here because few tasks have one

    check_owner(mill(), actor(), request.worker_id, now())
    held = get_held_attempt(mill(), request.worker_id, request.task_id, request.attempt, request.run)
    if request.data is not None:
        checkpoints.save(mill(), held, b64decode(request.data))
        return CheckpointAnswer()
    found = checkpoints.load(mill(), held)
    return CheckpointAnswer(data=None if found is None else b64encode(found).decode())
