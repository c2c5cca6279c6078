"""A worker that uses the HTTP API, with a token only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from shardmill.model.transfers import CompleteRequest, Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import (
    MAX_WAIT_SECONDS,
    HandBackAnswer,
    HandBackRequest,
    Heartbeat,
    HeartbeatAnswer,
    HeldTask,
    Lease,
    LeaseAnswer,
    LeaseRequest,
    Registration,
    ReportAnswer,
    Reported,
    ReportRequest,
    Result,
    Worker,
)
from shardmill.worker.logs import LogsNotStored, LogStore, Part, Stream
from shardmill.worker.transport.base import (
    FileUrls,
    Refused,
    Stale,
    TransportError,
    Unreachable,
    handed_back,
    retry_briefly,
)

_STALE_CODES = {"stale-session", "worker-not-found"}
_RETRYABLE = {408, 425, 429}
_REPORT_STATUSES = {
    "stale-attempt": "stale-attempt",
    "foreign-attempt": "foreign-attempt",
    "wrong-group": "wrong-group",
    "task-not-found": "unknown-task",
}
"""The status of all results of a report that is refused with one of these codes."""

_MAX_HANDED_BACK = 100
_T = TypeVar("_T", bound=BaseModel)


class HttpTransport:
    def __init__(self, url: str, token: str, *, client: httpx.Client | None = None) -> None:
        self._client = client or httpx.Client(timeout=httpx.Timeout(30, read=MAX_WAIT_SECONDS + 20))
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self._worker: Worker | None = None
        self.logs: LogStore = _PresignedLogs(self)
        self.files: FileUrls = _HttpFileUrls(self)

    def register(self, registration: Registration) -> Worker:
        self._worker = self.post("/v1/workers", registration, Worker)
        return self._worker

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self.me
        beat = Heartbeat(session=me.session, work=list(held), offline=offline)
        return self.post(f"/v1/workers/{me.id}:heartbeat", beat, HeartbeatAnswer)

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self.me
        request = LeaseRequest(worker_id=me.id, session=me.session, max=most, wait_seconds=wait_seconds)
        return self.post("/v1/work:lease", request, LeaseAnswer).items

    def report(self, results: Sequence[Result]) -> list[Reported]:
        request = ReportRequest(worker_id=self.me.id, results=list(results))
        try:
            return self.post("/v1/work:report", request, ReportAnswer).items
        except Refused as error:
            status = _REPORT_STATUSES.get(error.code)
            if not status:
                raise
            return [
                Reported(task_id=result.task_id, attempt=result.attempt, status=status) for result in results
            ]

    def hand_back(self, leases: Sequence[Lease]) -> None:
        for at in range(0, len(leases), _MAX_HANDED_BACK):
            tasks = [handed_back(task) for task in leases[at : at + _MAX_HANDED_BACK]]
            request = HandBackRequest(worker_id=self.me.id, tasks=tasks)
            self.post("/v1/work:release", request, HandBackAnswer)

    def close(self) -> None:
        """A pending lease request cannot be cancelled; the tasks that it receives are handed back."""

    @property
    def me(self) -> Worker:
        if not self._worker:
            raise Refused("this worker is not registered")
        return self._worker

    def post(self, path: str, body: BaseModel | dict[str, Any], answer: type[_T]) -> _T:
        content = body if isinstance(body, dict) else body.model_dump(mode="json", exclude_none=True)
        try:
            response = self._client.post(self._url + path, json=content, headers=self._headers)
        except httpx.InvalidURL as error:
            raise Refused(f"{self._url!r} is not a valid URL: {error}") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"{self._url}: {str(error) or type(error).__name__}") from error
        if not response.is_success:
            raise _error_of(response, f"POST {path}")
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable(f"POST {path}: invalid response: {error}") from error

    def put(self, url: str, data: bytes) -> None:
        """Upload to a presigned URL, without the token: it must not be sent to S3."""
        try:
            response = self._client.put(url, content=data)
        except httpx.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise _error_of(response, "upload of a log")


def _error_of(response: httpx.Response, operation: str) -> TransportError:
    code, detail = _problem(response)
    message = f"{operation}: {response.status_code} {detail}"
    if response.status_code >= 500 or response.status_code in _RETRYABLE:
        return Unreachable(message)
    if code in _STALE_CODES:
        return Stale(detail)
    return Refused(message, code, detail)


def _problem(response: httpx.Response) -> tuple[str, str]:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return "refused", response.reason_phrase
    return str(problem.get("code", "refused")), str(problem.get("detail") or problem.get("title") or "")


class _HttpFileUrls:
    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def prepare(self, lease: Lease) -> Prepared:
        prepared = self._request(lease, {"prepare": True}).prepared
        if prepared is None:
            raise Refused("the response to `prepare` is incomplete")
        return prepared

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        stored = [each.model_dump(mode="json") for each in requests]
        return self._request(lease, {"store": stored}).stored or []

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        completed = CompleteRequest(name=name, upload_id=upload_id, etags=list(etags))
        self._request(lease, {"complete": completed.model_dump(mode="json")})

    def _request(self, lease: Lease, fields: dict[str, Any]) -> _Files:
        held = {"taskId": lease.task_id, "attempt": lease.attempt, "run": lease.run}
        request = {"workerId": self._transport.me.id, **held, **fields}
        return self._transport.post("/v1/work:urls", request, _Files)


class _Files(BaseModel):
    prepared: Prepared | None = None
    stored: list[StoreAnswer] | None = None


class _UploadUrl(BaseModel):
    chunk: int
    url: str


class _UploadUrls(BaseModel):
    items: list[_UploadUrl]


class _PresignedLogs:
    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        request = {
            "workerId": self._transport.me.id,
            "taskId": lease.task_id,
            "attempt": lease.attempt,
            "run": lease.run,
            "stream": stream,
            "chunks": part.count,
            **({"first": part.first} if part.first else {}),
        }
        try:
            urls = retry_briefly(partial(self._transport.post, "/v1/work:urls", request, _UploadUrls))
            urls_by_chunk = {item.chunk: item.url for item in urls.items}
            for number, data in part:
                if number not in urls_by_chunk:
                    raise LogsNotStored(f"Shardmill returned no upload URL for chunk {number}")
                retry_briefly(partial(self._transport.put, urls_by_chunk[number], data))
        except TransportError as error:
            raise LogsNotStored(str(error)) from error
