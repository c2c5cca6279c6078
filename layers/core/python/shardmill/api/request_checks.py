"""Checks before a route runs: the token, unknown query parameters, and the size and syntax of the body."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from shardmill.api import problems
from shardmill.api.routes import Route
from shardmill.engine.errors import BadRequest, BodyTooLarge, NoSuchPath, Unauthorized, UnsupportedMedia
from shardmill.model.actor import Actor

MAX_BODY_BYTES = 1_000_000
MAX_PATH = 600
_REPLACEMENT = "�"


def actor_of(event: dict[str, Any]) -> Actor:
    """The actor that the authorizer found."""
    context = event.get("requestContext", {}).get("authorizer", {}).get("lambda") or {}
    name = context.get("actor")
    if not name:
        raise Unauthorized
    return Actor(name)


def check(event: dict[str, Any], route: Route | None) -> None:
    """Reject an invalid request; decode a base64 body in place."""
    if route is None or not route.public:
        actor_of(event)
    if len(event["rawPath"]) > MAX_PATH:
        raise NoSuchPath(f"no path has more than {MAX_PATH} characters")
    if not event["rawPath"].isprintable():
        raise NoSuchPath("no path has control characters")
    if route is not None:
        _check_queries(route, event.get("queryStringParameters") or {})
    body = _text(event)
    if not body:
        return
    if len(body.encode()) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
    kind = _header(event, "content-type").split(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMedia(f"the body must be application/json, not {kind or 'without a content type'}")
    _check_json(body)
    event["body"], event["isBase64Encoded"] = body, False
    event["headers"] = {**event["headers"], "content-type": "application/json"}


def _check_queries(route: Route, given: dict[str, str]) -> None:
    if given and not route.query_parameters.issuperset(given):
        raise problems.unknown_queries(given.keys() - route.query_parameters, route.query_parameters)


def _text(event: dict[str, Any]) -> str:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        if _REPLACEMENT in body:
            raise BadRequest("the body is not valid UTF-8")
        return str(body)
    try:
        return base64.b64decode(body, validate=True).decode()
    except (UnicodeDecodeError, binascii.Error):
        raise BadRequest("the body is not valid UTF-8") from None


def _check_json(body: str) -> None:
    try:
        json.loads(body, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicates)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate field {duplicate!r}")
    return found


def _header(event: dict[str, Any], name: str) -> str:
    headers = {key.lower(): value for key, value in (event.get("headers") or {}).items()}
    return str(headers.get(name, ""))
