"""HTTP requests to the API: idempotent ones are retried, and problem responses become exceptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from shardmill.client.connection import Connection
from shardmill.client.errors import BadAnswer, Invalid, Unreachable, problem_error
from shardmill.model.plain_json import plain_faults
from shardmill.transfer.backoff import Backoff, retry

CONNECT_SECONDS = 5.0
BACKOFF = Backoff(attempts=5, first_delay=0.1, max_delay=5.0)
_NO_RETRY = Backoff(attempts=1)
NOT_MODIFIED = 304


class _TemporaryFailure(Exception):
    """A response that may be a different one after a retry."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response


@dataclass(frozen=True, slots=True)
class Polled:
    """The answer to a conditional request."""

    content: Any
    etag: str | None
    date: str | None


class Http:
    def __init__(
        self, connection: Connection, *, timeout: float, transport: httpx.BaseTransport | None
    ) -> None:
        self._url = connection.url
        self.calls = 0
        self._client = httpx.Client(
            base_url=connection.api,
            headers={**connection.headers, "accept": "application/json"},
            auth=connection.auth(),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            trust_env=not connection.loopback,  # a proxy cannot reach this machine's loopback interface
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self.send("GET", path, query=given, idempotent=True)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool = False,
    ) -> Any:
        """Send a request and return the document of its response. Only `idempotent` requests are retried."""
        _, answer = self.exchange(
            method, path, query=query, document=document, headers=headers, idempotent=idempotent
        )
        return answer

    def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool = False,
    ) -> tuple[int, Any]:
        """Send a request and return the status and document of its response."""
        request = self._client.build_request(
            method, path, params=query, content=_body(document), headers=_headers(document, headers)
        )
        response = self._send(request, BACKOFF if idempotent else _NO_RETRY)
        return response.status_code, self._answer(response)

    def poll(self, path: str, query: Mapping[str, Any], etag: str | None) -> Polled:
        """Read a document once, without retries; None as its content if it still has this ETag."""
        known = {"if-none-match": etag} if etag else {}
        response = self._send(self._client.build_request("GET", path, params=query, headers=known), _NO_RETRY)
        unchanged = response.status_code == NOT_MODIFIED
        content = None if unchanged else self._answer(response)
        return Polled(content, response.headers.get("etag"), response.headers.get("date"))

    def _send(self, request: httpx.Request, backoff: Backoff) -> httpx.Response:

        def attempt() -> httpx.Response:
            self.calls += 1
            response = self._client.send(request)
            if response.status_code == 429 or response.status_code >= 500:
                raise _TemporaryFailure(response)
            return response

        try:
            return retry(
                attempt, backoff, on=(httpx.TransportError, _TemporaryFailure), retry_after=_retry_after
            )
        except _TemporaryFailure as failure:
            return failure.response
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    def _answer(self, response: httpx.Response) -> Any:
        try:
            body = response.json() if response.content else None
        except ValueError:
            body = None
            if response.is_success:
                raise BadAnswer(
                    f"{self._url} responded, but not with JSON; check the URL",
                    status=response.status_code,
                ) from None
        if response.is_success:
            return body
        request = f"{response.request.method} {response.request.url.path}"
        raise problem_error(response.status_code, body, request)

    def _unreachable(self, error: httpx.RequestError) -> Unreachable:
        reason = "no response in time" if isinstance(error, httpx.TimeoutException) else str(error)
        return Unreachable(f"cannot reach Shardmill at {self._url}: {reason or type(error).__name__}")


def _body(document: Any) -> bytes | None:
    """Encode a document in ASCII, which no intermediary can damage."""
    if document is None:
        return None
    faults = plain_faults(document)
    if faults:
        raise Invalid("the document cannot be sent as JSON", code="not-json", faults=faults)
    return json.dumps(document, separators=(",", ":")).encode()


def _headers(document: Any, headers: Mapping[str, str] | None) -> dict[str, str]:
    kind = {} if document is None else {"content-type": "application/json"}
    return {**kind, **(headers or {})}


def _retry_after(error: Exception) -> float:
    """The seconds of a Retry-After header; AWS does not use its other form, a date."""
    if not isinstance(error, _TemporaryFailure):
        return 0.0
    try:
        return max(0.0, float(error.response.headers.get("retry-after", 0)))
    except ValueError:
        return 0.0
