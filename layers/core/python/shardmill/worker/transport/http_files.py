"""Files and logs of tasks, for a worker that uses the HTTP API."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from shardmill.model.transfers import CompleteRequest, Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import Lease, Worker
from shardmill.worker.logs import LogsNotStored, Part, Stream
from shardmill.worker.transport.base import Refused, TransportError, retry_briefly

_T = TypeVar("_T", bound=BaseModel)


class Api(Protocol):
    """Requests of a registered worker."""

    @property
    def me(self) -> Worker: ...

    def post(self, path: str, body: BaseModel | dict[str, Any], answer: type[_T]) -> _T: ...

    def put(self, url: str, data: bytes) -> None: ...


class HttpFileUrls:
    def __init__(self, transport: Api) -> None:
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

    def load_checkpoint(self, lease: Lease) -> bytes | None:
        found = self._transport.post("/v1/work:checkpoint", self._attempt(lease), _Checkpoint).data
        return None if found is None else b64decode(found)

    def save_checkpoint(self, lease: Lease, data: bytes) -> None:
        request = {**self._attempt(lease), "data": b64encode(data).decode()}
        self._transport.post("/v1/work:checkpoint", request, _Checkpoint)

    def _request(self, lease: Lease, fields: dict[str, Any]) -> _Files:
        return self._transport.post("/v1/work:urls", {**self._attempt(lease), **fields}, _Files)

    def _attempt(self, lease: Lease) -> dict[str, Any]:
        held = {"taskId": lease.task_id, "attempt": lease.attempt, "run": lease.run}
        return {"workerId": self._transport.me.id, **held}


class _Files(BaseModel):
    prepared: Prepared | None = None
    stored: list[StoreAnswer] | None = None


class _Checkpoint(BaseModel):
    data: str | None = None


class _UploadUrl(BaseModel):
    chunk: int
    url: str


class _UploadUrls(BaseModel):
    items: list[_UploadUrl]


class PresignedLogs:
    def __init__(self, transport: Api) -> None:
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
