"""A worker that uses the HTTP API, with a token or with signed requests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from shardmill.model.groups.addresses import WAIT_SECONDS, ReceivedMessage
from shardmill.model.worker import (
    MAX_BATCH,
    MAX_EXCHANGED,
    MAX_WAIT_SECONDS,
    HandBackAnswer,
    HandBackRequest,
    Heartbeat,
    HeartbeatAnswer,
    HeldTask,
    Lease,
    LeaseAnswer,
    LeaseRequest,
    NextLease,
    RegisteredWorker,
    Registration,
    ReportAnswer,
    Reported,
    ReportRequest,
    Result,
    Worker,
)
from shardmill.worker.logs import LogStore
from shardmill.worker.transport.base import (
    FileUrls,
    Refused,
    Stale,
    TransportError,
    Unreachable,
    handed_back,
)
from shardmill.worker.transport.http_files import HttpFileUrls, PresignedLogs
from shardmill.worker.transport.outbox import Outbox
from shardmill.worker.transport.sqs_waiting import MAX_HEARTBEAT_SECONDS, SqsUnreachable, SqsWaiting

_STALE_CODES = {"stale-session", "worker-not-found"}
_RETRYABLE = {408, 425, 429}
_REPORT_STATUSES = {
    "stale-attempt": "stale-attempt",
    "foreign-attempt": "foreign-attempt",
    "wrong-group": "wrong-group",
    "task-not-found": "unknown-task",
}
"""The status of all results of a report that is refused with one of these codes."""

MIN_COMPRESSED_BYTES = 1_400
"""A smaller request fits into one packet."""

TAKE_ALONG_SECONDS = 0.03
"""How long results wait for a lease call while tasks are short and arrive continuously."""

MORE_SECONDS = 0.05
"""How long a worker with more slots waits for further messages of a queue that had ten."""

_NOT_UNDERSTOOD = (400, 415)
_MAX_HANDED_BACK = 100
_T = TypeVar("_T", bound=BaseModel)


class HttpTransport:
    """Waits at SQS if the API gave it addresses and SQS can be reached; otherwise the API waits for it."""

    def __init__(
        self, url: str, token: str, *, client: httpx.Client | None = None, auth: httpx.Auth | None = None
    ) -> None:
        self._client = client or httpx.Client(timeout=httpx.Timeout(30, read=MAX_WAIT_SECONDS + 20))
        self._url = url.rstrip("/")
        self._headers = {} if auth else {"authorization": f"Bearer {token}"}
        self._auth = auth
        self._worker: RegisteredWorker | None = None
        self._waiting = SqsWaiting(self._client, self._release)
        self._outbox = Outbox()
        self._unleased: list[ReceivedMessage] = []
        self._leasing_soon = False
        self._compresses = False
        self.logs: LogStore = PresignedLogs(self)
        self.files: FileUrls = HttpFileUrls(self)

    def register(self, registration: Registration) -> Worker:
        worker = self._worker = self.post("/v1/workers", registration, RegisteredWorker)
        self._compresses = worker.lanes is not None
        self._waiting.use(worker.lanes)
        seconds = self._heartbeat_seconds(worker.heartbeat_seconds)
        return worker.model_copy(update={"heartbeat_seconds": seconds})

    @property
    def largest_batch(self) -> int:
        return MAX_EXCHANGED if self._addressed else MAX_BATCH

    @property
    def _addressed(self) -> bool:
        """Whether the API supports addresses; an earlier release rejects the fields about them."""
        return self._worker is not None and self._worker.lanes is not None

    def _heartbeat_seconds(self, seconds: int) -> int:
        return min(seconds, MAX_HEARTBEAT_SECONDS) if self._addressed else seconds

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self.me
        tag = self._waiting.tag if self._addressed else None
        beat = Heartbeat(session=me.session, work=list(held), offline=offline, lanes=tag)
        path = f"/v1/workers/{me.id}:heartbeat"
        try:
            answer = self.post(path, beat, HeartbeatAnswer)
        except Refused as error:
            if error.code != "invalid-request" or tag is None:
                raise
            # The stack was rolled back to an earlier release.
            self._worker = me.model_copy(update={"lanes": None})
            answer = self.post(path, beat.model_copy(update={"lanes": None}), HeartbeatAnswer)
        self._waiting.use(answer.lanes)
        seconds = self._heartbeat_seconds(answer.heartbeat_seconds)
        return answer.model_copy(update={"heartbeat_seconds": seconds})

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        if wait_seconds >= WAIT_SECONDS and self._waiting.usable:
            try:
                received = self._unleased or self._receive(most, wait_seconds)
            except SqsUnreachable as error:
                self._waiting.fall_back(error)
            else:
                return self._lease_received(received, most) if received else self._nothing()
        me = self.me
        request = LeaseRequest(
            worker_id=me.id, session=me.session, max=min(most, MAX_BATCH), wait_seconds=wait_seconds
        )
        return self.post("/v1/work:lease", request, LeaseAnswer).items

    def _receive(self, most: int, wait_seconds: int) -> list[ReceivedMessage]:
        """Wait for messages. SQS returns ten at most; while it does, get more for the free slots."""
        found = received = self._waiting.wait(min(most, MAX_BATCH), wait_seconds)
        self._outbox.expect_lease(bool(received))
        while len(found) == MAX_BATCH and len(received) < most:
            try:
                found = self._waiting.wait(min(most - len(received), MAX_BATCH), 0, patience=MORE_SECONDS)
            except SqsUnreachable:
                break  # the messages that arrived are leased; the next call shows whether the error persists
            received = received + found
        return received

    def _nothing(self) -> list[Lease]:
        self._leasing_soon = False
        return []

    def _lease_received(self, received: list[ReceivedMessage], most: int) -> list[Lease]:
        """Send messages, and the waiting results, to the API. After a failure, send them again."""
        self._unleased = received
        wanted = NextLease(session=self.me.session, max=most, messages=received, lanes=self._waiting.tag)
        try:
            answer = self._report_and_lease(wanted)
            if answer is None:
                request = LeaseRequest(worker_id=self.me.id, **dict(wanted))
                answer = self.post("/v1/work:lease", request, LeaseAnswer)
        except Refused:
            self._unleased = []
            raise
        self._unleased = []
        self._waiting.use(answer.lanes)
        self._waiting.lanes.pause(answer.paused)
        self._leasing_soon = bool(answer.items)
        return answer.items

    def _report_and_lease(self, wanted: NextLease) -> LeaseAnswer | None:
        """Lease together with the report of results; None if there are none, or they were refused."""
        pending = self._outbox.take()
        self._outbox.expect_lease(False)
        if not pending:
            return None
        request = ReportRequest(worker_id=self.me.id, results=pending.results, lease=wanted)
        try:
            answer = self.post("/v1/work:report", request, ReportAnswer)
        except Exception as error:
            self._outbox.answer(pending, error)
            if isinstance(error, Refused):
                return None
            raise
        self._outbox.answer(pending, answer.items)
        if answer.refused:
            raise _refusal(answer.refused.code, answer.refused.detail)
        return answer.lease

    def _release(self, messages: Sequence[ReceivedMessage]) -> None:
        me = self.me
        request = LeaseRequest(worker_id=me.id, session=me.session, max=0, messages=list(messages))
        self.post("/v1/work:lease", request, LeaseAnswer)

    def report(self, results: Sequence[Result]) -> list[Reported]:
        if self._leasing_soon:
            answers = self._outbox.offer(results, TAKE_ALONG_SECONDS)
            if answers is not None:
                return answers
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

    def hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        for at in range(0, len(leases), _MAX_HANDED_BACK):
            tasks = [handed_back(task, reason) for task in leases[at : at + _MAX_HANDED_BACK]]
            request = HandBackRequest(worker_id=self.me.id, tasks=tasks)
            self.post("/v1/work:release", request, HandBackAnswer)

    def close(self) -> None:
        """End a pending wait at SQS. A lease request cannot be cancelled; its tasks are handed back."""
        self._waiting.lanes.close()

    @property
    def me(self) -> RegisteredWorker:
        if not self._worker:
            raise Refused("this worker is not registered")
        return self._worker

    def post(self, path: str, body: BaseModel | dict[str, Any], answer: type[_T]) -> _T:
        document = body if isinstance(body, dict) else body.model_dump(mode="json", exclude_none=True)
        content = json.dumps(document, separators=(",", ":")).encode()
        headers = self._headers | {"content-type": "application/json"}
        compressed = self._compresses and len(content) > MIN_COMPRESSED_BYTES
        if compressed:
            packed = gzip.compress(content, compresslevel=1)
            response = self._send(path, packed, headers | {"content-encoding": "gzip"})
            if response.status_code in _NOT_UNDERSTOOD:
                response, before = self._send(path, content, headers), response
                self._compresses = response.status_code == before.status_code
        else:
            response = self._send(path, content, headers)
        if not response.is_success:
            raise _error_of(response, f"POST {path}")
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable(f"POST {path}: invalid response: {_faults(error)}") from None

    def _send(self, path: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        try:
            auth = self._auth or httpx.USE_CLIENT_DEFAULT
            return self._client.post(self._url + path, content=content, headers=headers, auth=auth)
        except httpx.InvalidURL as error:
            raise Refused(f"{self._url!r} is not a valid URL: {error}") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"{self._url}: {str(error) or type(error).__name__}") from error

    def put(self, url: str, data: bytes) -> None:
        """Upload to a presigned URL, without the token: it must not be sent to S3."""
        try:
            response = self._client.put(url, content=data)
        except httpx.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise _error_of(response, "upload of a log")


def _faults(error: ValidationError) -> str:
    """The faults of a response, without its values, which may be secret."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults[:3])


def _error_of(response: httpx.Response, operation: str) -> TransportError:
    code, detail = _problem(response)
    message = f"{operation}: {response.status_code} {detail}"
    if response.status_code >= 500 or response.status_code in _RETRYABLE:
        return Unreachable(message)
    return _refusal(code, detail, message)


def _refusal(code: str, detail: str, message: str = "") -> TransportError:
    return Stale(detail) if code in _STALE_CODES else Refused(message or detail, code, detail)


def _problem(response: httpx.Response) -> tuple[str, str]:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return "refused", response.reason_phrase
    return str(problem.get("code", "refused")), str(problem.get("detail") or problem.get("title") or "")
