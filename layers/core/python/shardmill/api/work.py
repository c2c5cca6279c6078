"""/v1/work: reports, releases and file URLs of leased tasks; the lease itself is in `lease`"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.api.responses import now
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
from shardmill.model.base import Answer, Count, Model
from shardmill.model.transfers import CompleteRequest, Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import (
    HandBackAnswer,
    HandBackRequest,
    ReportAnswer,
    ReportRequest,
)
from shardmill.store.workers import Tally

MOST_ANSWERED_BYTES = 5_000_000
_ABOUT_A_FILE = 350
_UNCOUNTED: dict[str, tuple[type[MillError], str]] = {
    "stale-attempt": (StaleAttempt, "the attempt is over, or a newer one has these tasks"),
    "foreign-attempt": (ForeignAttempt, "another worker, or none, holds these tasks"),
    "wrong-group": (WrongGroup, "these tasks belong to groups that the worker is not in"),
    "unknown-task": (TaskNotFound, "there are no such tasks"),
}


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


def report_work(request: Annotated[ReportRequest, Body()]) -> ReportAnswer:
    """Report attempts; refused with the code of the first if none of them counts, e.g. `stale-attempt`."""
    worker = registry.read(mill(), request.worker_id)
    tally = Tally()
    reported = report(
        mill(), worker.id, request.results, now(), groups=worker.groups, tally=tally, trusted=False
    )
    if tally.done or tally.skip:
        record_totals(mill(), worker.id, tally, now())
    if all(item.status not in ("ok", "already") for item in reported):
        items = [item.model_dump(mode="json") for item in reported]
        error, detail = _UNCOUNTED[reported[0].status]
        raise error(detail, extra={"items": items})
    return ReportAnswer(items=reported)


def release_work(request: Annotated[HandBackRequest, Body()]) -> HandBackAnswer:
    """Give tasks back that a worker which stops cannot finish; they count as nothing."""
    worker = registry.read(mill(), request.worker_id)
    given = hand_back(mill(), worker.id, request.tasks, now())
    if given:
        record_totals(mill(), worker.id, Tally(done=set(given)), now())
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


def urls(request: Annotated[UrlsRequest, Body()]) -> UrlsAnswer:
    """Presigned addresses, for fifteen minutes, of an attempt's log and files, for its worker only."""
    held = get_held_attempt(mill(), request.worker_id, request.task_id, request.attempt, request.run)
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
