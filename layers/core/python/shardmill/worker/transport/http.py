"""A worker over the HTTP API, with nothing but a token."""

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
from shardmill.worker.retry import a_few_times
from shardmill.worker.transport.base import FileDesk, Refused, Stale, TransportError, Unreachable, handed_back

_STALE_CODES = {"stale-session", "worker-not-found"}
_TRY_AGAIN = {408, 425, 429}
_ANSWERED = {
    "stale-attempt": "stale-attempt",
    "foreign-attempt": "foreign-attempt",
    "wrong-group": "wrong-group",
    "task-not-found": "unknown-task",
}
"""Codes of a report of which nothing counts, and what that means for its results."""

_MOST_HANDED_BACK = 100
_T = TypeVar("_T", bound=BaseModel)


class HttpTransport:
    def __init__(self, url: str, token: str, *, client: httpx.Client | None = None) -> None:
        self._client = client or httpx.Client(timeout=httpx.Timeout(30, read=MAX_WAIT_SECONDS + 20))
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self._worker: Worker | None = None
        self.logs: LogStore = _PresignedLogs(self)
        self.files: FileDesk = _HttpDesk(self)

    def register(self, registration: Registration) -> Worker:
        self._worker = self.post("/v1/workers", registration, Worker)
        return self._worker

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self.me
        beat = Heartbeat(session=me.session, work=list(held), offline=offline)
        return self.post(f"/v1/workers/{me.id}:heartbeat", beat, HeartbeatAnswer)

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self.me
        asked = LeaseRequest(worker_id=me.id, session=me.session, max=most, wait_seconds=wait_seconds)
        return self.post("/v1/work:lease", asked, LeaseAnswer).items

    def report(self, results: Sequence[Result]) -> list[Reported]:
        asked = ReportRequest(worker_id=self.me.id, results=list(results))
        try:
            return self.post("/v1/work:report", asked, ReportAnswer).items
        except Refused as error:
            status = _ANSWERED.get(error.code)
            if not status:
                raise
            return [
                Reported(task_id=result.task_id, attempt=result.attempt, status=status) for result in results
            ]

    def hand_back(self, leases: Sequence[Lease]) -> None:
        for at in range(0, len(leases), _MOST_HANDED_BACK):
            tasks = [handed_back(task) for task in leases[at : at + _MOST_HANDED_BACK]]
            asked = HandBackRequest(worker_id=self.me.id, tasks=tasks)
            self.post("/v1/work:release", asked, HandBackAnswer)

    def close(self) -> None:
        """A lease that waits at the other end cannot be called back; what it brings is handed back."""

    @property
    def me(self) -> Worker:
        if not self._worker:
            raise Refused("this worker did not register yet")
        return self._worker

    def post(self, path: str, body: BaseModel | dict[str, Any], answer: type[_T]) -> _T:
        content = body if isinstance(body, dict) else body.model_dump(mode="json", exclude_none=True)
        try:
            response = self._client.post(self._url + path, json=content, headers=self._headers)
        except httpx.InvalidURL as error:
            raise Refused(f"{self._url!r} is not an address: {error}") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"{self._url}: {str(error) or type(error).__name__}") from error
        if not response.is_success:
            raise _fault(response, f"POST {path}")
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable(f"POST {path}: the answer cannot be read: {error}") from error

    def put(self, url: str, data: bytes) -> None:
        """Store something at a presigned address, which needs no token and must not see it."""
        try:
            response = self._client.put(url, content=data)
        except httpx.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise _fault(response, "PUT of a log")


def _fault(response: httpx.Response, what: str) -> TransportError:
    """What an answer other than 2xx means to a worker."""
    code, detail = _problem(response)
    said = f"{what}: {response.status_code} {detail}"
    if response.status_code >= 500 or response.status_code in _TRY_AGAIN:
        return Unreachable(said)
    if code in _STALE_CODES:
        return Stale(detail)
    return Refused(said, code, detail)


def _problem(response: httpx.Response) -> tuple[str, str]:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return "refused", response.reason_phrase
    return str(problem.get("code", "refused")), str(problem.get("detail") or problem.get("title") or "")


class _HttpDesk:
    """Asks for the addresses of files with nothing but a token."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def prepare(self, lease: Lease) -> Prepared:
        prepared = self._ask(lease, {"prepare": True}).prepared
        if prepared is None:
            raise Refused("the answer has nothing prepared")
        return prepared

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        wanted = [each.model_dump(mode="json") for each in requests]
        return self._ask(lease, {"store": wanted}).stored or []

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        done = CompleteRequest(name=name, upload_id=upload_id, etags=list(etags))
        self._ask(lease, {"complete": done.model_dump(mode="json")})

    def _ask(self, lease: Lease, wish: dict[str, Any]) -> _Files:
        held = {"taskId": lease.task_id, "attempt": lease.attempt, "run": lease.run}
        asked = {"workerId": self._transport.me.id, **held, **wish}
        return self._transport.post("/v1/work:urls", asked, _Files)


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
        asked = {
            "workerId": self._transport.me.id,
            "taskId": lease.task_id,
            "attempt": lease.attempt,
            "run": lease.run,
            "stream": stream,
            "chunks": part.count,
            **({"first": part.first} if part.first else {}),
        }
        try:
            urls = a_few_times(partial(self._transport.post, "/v1/work:urls", asked, _UploadUrls))
            addresses = {item.chunk: item.url for item in urls.items}
            for number, data in part:
                if number not in addresses:
                    raise LogsNotStored(f"no address was given for chunk {number}")
                a_few_times(partial(self._transport.put, addresses[number], data))
        except TransportError as error:
            raise LogsNotStored(str(error)) from error
