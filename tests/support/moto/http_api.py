"""What API Gateway's HTTP API does between a caller and a function."""

import base64
import gzip
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError

Invoke = Callable[[str, Any], Any]

MAX_BODY_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Route:
    """One route of the API: its function and authorizer."""

    key: str
    function: str
    authorizer: str | None = None
    needs_header: bool = False
    """The authorizer has an identity source: without the header it is not called."""

    def takes(self, method: str, path: str) -> bool:
        wanted, _, place = self.key.partition(" ")
        if wanted not in (method, "ANY"):
            return False
        if place.endswith("/{proxy+}"):
            prefix = place.removesuffix("{proxy+}")
            return path.startswith(prefix) and path != prefix
        return path == place


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str
    cookies: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.text) if self.text else None

    def __repr__(self) -> str:
        return f"<{self.status} {self.headers.get('content-type', '')} {self.text[:500]}>"


@dataclass(frozen=True)
class HttpApi:
    """Routes requests to functions the way API Gateway does, payload format 2.0."""

    routes: list[Route]
    invoke: Invoke

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(path)
        route = self._route(method, parts.path)
        if route is None:
            return _message(404, "Not Found")
        if body is not None and len(body) > MAX_BODY_BYTES:
            return _message(413, "Request Entity Too Large")
        event = http_event(method, path, body, headers, route.key)
        if route.authorizer is not None:
            refusal = self._authorize(route, route.authorizer, event)
            if refusal is not None:
                return refusal
        try:
            return _answer(self.invoke(route.function, event))
        except (FunctionError, TooManyRequests) as fault:
            print(fault)
            return _message(500, "Internal Server Error")

    def _route(self, method: str, path: str) -> Route | None:
        exact = [route for route in self.routes if route.takes(method, path)]
        default = [route for route in self.routes if route.key == "$default"]
        return next(iter([*exact, *default]), None)

    def _authorize(self, route: Route, authorizer: str, event: dict[str, Any]) -> Answer | None:
        asked = {key: event[key] for key in event if key not in ("body", "isBase64Encoded")}
        asked |= {"type": "REQUEST", "routeArn": "arn:aws:execute-api:test", "identitySource": None}
        if route.needs_header:
            token = event["headers"].get("authorization")
            if not token:
                return _message(401, "Unauthorized")
            asked["identitySource"] = [token]
        try:
            answer = self.invoke(authorizer, asked)
        except (FunctionError, TooManyRequests) as fault:
            print(fault)
            return _message(500, "Internal Server Error")
        if not answer.get("isAuthorized"):
            return _message(403, "Forbidden")
        event["requestContext"]["authorizer"] = {"lambda": answer.get("context")}
        return None


def http_event(
    method: str, path: str, body: bytes | None, headers: Mapping[str, str], route_key: str
) -> dict[str, Any]:
    """The event of payload format 2.0 that a function gets for a request."""
    parts = urlsplit(path)
    decoded = unquote(parts.path)
    now = datetime.now(UTC)
    lowered = {"host": "test.execute-api.us-east-1.amazonaws.com"}
    lowered |= {name.lower(): value for name, value in headers.items()}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": decoded,
        "rawQueryString": parts.query,
        "headers": lowered,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "test",
            "domainName": lowered["host"],
            "domainPrefix": "test",
            "http": {
                "method": method,
                "path": decoded,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": lowered.get("user-agent", "test"),
            },
            "requestId": str(uuid.uuid4()),
            "routeKey": route_key,
            "stage": "$default",
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "isBase64Encoded": False,
    }
    if parts.query:
        event["queryStringParameters"] = _joined(parse_qsl(parts.query, keep_blank_values=True))
    if body is not None:
        event |= _body(body)
        lowered.setdefault("content-length", str(len(body)))
    return event


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _body(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _answer(result: Any) -> Answer:
    if not isinstance(result, dict) or "statusCode" not in result:
        return Answer(200, {"content-type": "application/json"}, json.dumps(result))
    text = result.get("body") or ""
    headers = {name.lower(): str(value) for name, value in (result.get("headers") or {}).items()}
    if result.get("isBase64Encoded"):
        content = base64.b64decode(text)
        text = (
            gzip.decompress(content) if headers.pop("content-encoding", "") == "gzip" else content
        ).decode()
    headers.setdefault("content-type", "text/plain; charset=utf-8")
    return Answer(int(result["statusCode"]), headers, text, result.get("cookies") or [])


def _message(status: int, message: str) -> Answer:
    return Answer(status, {"content-type": "application/json"}, json.dumps({"message": message}))
