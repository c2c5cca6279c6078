"""Helpers that all parts of the Client share: paths, paging, and responses as models."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import Field, TypeAdapter, ValidationError

from shardmill.client.errors import BadAnswer, BadName, Invalid
from shardmill.client.http import BACKOFF, Http
from shardmill.model.base import Answer, Name, Time, Trigger
from shardmill.model.batch import BatchAnswer, BatchItem
from shardmill.model.fault import fault
from shardmill.model.job import Job
from shardmill.model.timestamps import from_ms, to_ms
from shardmill.transfer.backoff import retry

T = TypeVar("T", bound=Answer)

PAGE = 200
MAX_BATCH_BYTES = 900_000  # the API accepts a body of 1,000,000
ACCEPTED = 202
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_TRIGGER: TypeAdapter[str] = TypeAdapter(Trigger)
_WORKER_ID = re.compile(r"[a-z2-7]{8}")
_lock = threading.Lock()
_last_ms = 0


def batches(
    documents: Iterable[Mapping[str, Any]], most: int, most_bytes: int
) -> Iterator[list[Mapping[str, Any]]]:
    """Group documents into lists that fit into one request; a larger document is alone in its list."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for document in documents:
        own = len(json.dumps(document))
        if batch and (len(batch) == most or size + own > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += own
    if batch:
        yield batch


class Submitted(Job):
    """The Job of a request; `new` is False if it existed before."""

    new: bool = Field(exclude=True)


class _Unprocessed(Exception):
    """Some requests of a batch were not processed."""


class Calls:
    _http: Http

    def _list(
        self, model: type[T], path: str, query: Mapping[str, Any] | None = None, page: int = PAGE
    ) -> Iterator[T]:
        cursor: str | None = None
        while True:
            items, cursor = self._page(model, path, {**(query or {}), "limit": page, "cursor": cursor})
            yield from items
            if not cursor:
                return

    def _page(self, model: type[T], path: str, query: Mapping[str, Any]) -> tuple[list[T], str | None]:
        answer = self._http.get(path, query)
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise BadAnswer(f"the response to GET {path} is not a list")
        return [read(model, item) for item in answer["items"]], answer.get("cursor")

    def _start_job(self, path: str, document: Any, *, idempotent: bool) -> Submitted:
        status, answer = self._http.exchange("POST", path, document=document, idempotent=idempotent)
        return read(Submitted, {**answer, "new": status == ACCEPTED} if isinstance(answer, dict) else answer)

    def _submit_batch(self, batch: Sequence[Mapping[str, Any]]) -> list[BatchItem]:
        """Submit a batch, and resubmit requests that failed temporarily; return all answers.

        Requests are resubmitted until several attempts in a row process none of them.
        """
        answers: dict[int, BatchItem] = {}

        def attempt() -> None:
            sent = [at for at in range(len(batch)) if at not in answers or answers[at].temporary]
            document = {"requests": [batch[at] for at in sent]}
            answer = self._http.send("POST", "/v1/jobs:batch", document=document, idempotent=True)
            answers.update(zip(sent, read(BatchAnswer, answer).items, strict=False))
            if done() < len(batch):
                raise _Unprocessed

        def done() -> int:
            return sum(not item.temporary for item in answers.values())

        with suppress(_Unprocessed):
            retry(attempt, BACKOFF, on=_Unprocessed, progress=done)
        return [answers[at] for at in sorted(answers)]


def read(model: type[T], answer: Any) -> T:
    """Validate a response as a model. Raises BadAnswer."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise BadAnswer(
            f"the response is not a valid {model.__name__} for this version of the client"
            + (f" (see {place})" if place else "")
        ) from error


def precondition(expected: int | None) -> dict[str, str]:
    """The header that makes a request conditional on a version; 0 is a document that does not exist."""
    if expected is None:
        return {}
    return {"if-match": f'"v{expected}"'} if expected else {"if-none-match": "*"}


def time_text(moment: datetime | str, field: str) -> str:
    """A time in the format of the API; one without an offset is UTC."""
    try:
        return _TIME.dump_python(_TIME.validate_python(moment), mode="json")  # type: ignore[no-any-return]
    except ValidationError as error:
        faults = [fault((field,), "bad-time", error.errors()[0]["msg"])]
        raise Invalid("the request is not valid", code="invalid-request", faults=faults) from None


def step_overrides(
    params: Mapping[str, Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The `steps` of a JobRequest from the parameters and the other fields of each step, by name."""
    return [
        {
            "stepName": name,
            **({"params": dict(params[name])} if name in params else {}),
            **others.get(name, {}),
        }
        for name in dict.fromkeys([*params, *others])
    ]


def new_trigger() -> str:
    """The current time in milliseconds, UTC; unique in this process."""
    global _last_ms
    with _lock:
        _last_ms = max(to_ms(datetime.now(UTC)), _last_ms + 1)
        moment = from_ms(_last_ms)
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}Z"


def path_segment(text: str, field: str, kind: TypeAdapter[str] = _NAME) -> str:
    """A segment of a path. Raises BadName for a value that the API would reject."""
    try:
        return quote(kind.validate_python(text, strict=True), safe="")
    except ValidationError as error:
        raise BadName(f"{text!r} is not a valid {field}: it {error.errors()[0]['msg']}") from None


def definition_path(job_name: str) -> str:
    return f"/v1/definitions/{path_segment(job_name, 'jobName')}"


def job_path(job_name: str, trigger: str) -> str:
    return f"/v1/jobs/{path_segment(job_name, 'jobName')}/{path_segment(trigger, 'trigger', _TRIGGER)}"


def step_path(job_name: str, trigger: str, step_name: str) -> str:
    return f"{job_path(job_name, trigger)}/steps/{path_segment(step_name, 'stepName')}"


def task_path(job_name: str, trigger: str, step_name: str, index: int) -> str:
    return f"{step_path(job_name, trigger, step_name)}/tasks/{int(index)}"


def schedules_path(job_name: str | None) -> str:
    return "/v1/schedules" if job_name is None else f"/v1/schedules/{path_segment(job_name, 'jobName')}"


def schedule_path(job_name: str, schedule_id: str) -> str:
    return f"{schedules_path(job_name)}/{path_segment(schedule_id, 'scheduleId')}"


def backfill_path(job_name: str, schedule_id: str, number: int) -> str:
    return f"{schedule_path(job_name, schedule_id)}/backfills/{int(number)}"


def group_path(name: str) -> str:
    return f"/v1/groups/{path_segment(name, 'name')}"


def worker_path(worker_id: str) -> str:
    return f"/v1/workers/{quote(worker_id, safe='')}"


def may_be_worker_id(text: str) -> bool:
    """Whether a text has the form of a worker id; it may be a name as well."""
    return _WORKER_ID.fullmatch(text) is not None
