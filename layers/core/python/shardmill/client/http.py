"""HTTP to Shardmill: a request, tried again where that is harmless; its answer is JSON or an exception."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

import httpx

from shardmill.client.connection import Connection
from shardmill.client.errors import BadAnswer, Invalid, Unreachable, problem_error
from shardmill.model.plain_json import plain_faults

TRIES = 5
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
CONNECT_SECONDS = 5.0


class Http:
    def __init__(
        self, connection: Connection, *, timeout: float, transport: httpx.BaseTransport | None
    ) -> None:
        self._url = connection.url
        self.calls = 0
        self._client = httpx.Client(
            base_url=connection.url,
            headers={"authorization": f"Bearer {connection.token}", "accept": "application/json"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            trust_env=not connection.loopback,  # a proxy cannot reach this machine's loopback
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self.send("GET", path, query=given, again=True)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> Any:
        """The answer's document. `again`: asking twice is as good as asking once."""
        return self.exchange(method, path, query=query, document=document, headers=headers, again=again)[1]

    def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> tuple[int, Any]:
        """The answer's status and document."""
        request = self._client.build_request(
            method, path, params=query, content=_body(document), headers=_headers(document, headers)
        )
        for tries_left in reversed(range(TRIES if again else 1)):
            delay = FIRST_DELAY * 2 ** (TRIES - 1 - tries_left) * random.uniform(0.5, 1.0)
            self.calls += 1
            try:
                response = self._client.send(request)
            except httpx.TransportError as error:
                if not tries_left:
                    raise self._unreachable(error) from error
            else:
                passing = response.status_code == 429 or response.status_code >= 500
                if not (passing and tries_left):
                    return response.status_code, self._answer(response)
                delay = max(delay, _asked_delay(response))
            time.sleep(min(delay, LONGEST_DELAY))
        raise AssertionError("unreachable")

    def _answer(self, response: httpx.Response) -> Any:
        try:
            body = response.json() if response.content else None
        except ValueError:
            body = None
            if response.is_success:
                raise BadAnswer(
                    f"{self._url} answers, but not in JSON; is the address right?",
                    status=response.status_code,
                ) from None
        if response.is_success:
            return body
        where = f"{response.request.method} {response.request.url.path}"
        raise problem_error(response.status_code, body, where)

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        reason = "it did not answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
        return Unreachable(f"cannot reach Shardmill at {self._url}: {reason or type(error).__name__}")


def _body(document: Any) -> bytes | None:
    """In ASCII: so no text is mistaken for one that was damaged on its way."""
    if document is None:
        return None
    faults = plain_faults(document)
    if faults:
        raise Invalid("the document cannot be sent as JSON", code="not-json", faults=faults)
    return json.dumps(document, separators=(",", ":")).encode()


def _headers(document: Any, headers: Mapping[str, str] | None) -> dict[str, str]:
    kind = {} if document is None else {"content-type": "application/json"}
    return {**kind, **(headers or {})}


def _asked_delay(response: httpx.Response) -> float:
    """What Retry-After asks for, in seconds; its other form, a date, is not used by AWS."""
    try:
        return max(0.0, float(response.headers.get("retry-after", 0)))
    except ValueError:
        return 0.0
