"""Checks before a route runs: the token, the path, unknown query parameters, and the body."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from shardmill.api import problems
from shardmill.api.routes import Route, is_awe
from shardmill.aws.clock import now_ms
from shardmill.aws.settings import iam_scopes
from shardmill.engine import authorize
from shardmill.engine.access.errors import Unauthorized
from shardmill.engine.access.request_rate import check_rate
from shardmill.engine.errors import BadRequest, BodyTooLarge, NoSuchPath, UnsupportedMedia
from shardmill.model.actor import Actor

MAX_BODY_BYTES = 1_000_000
MAX_PATH = 600
_REPLACEMENT = "�"


def actor_of(event: dict[str, Any]) -> Actor:
    """The actor that the authorizer found. Raises Unauthorized if there is none."""
    actor = _known_actor(event)
    if not actor:
        raise Unauthorized
    return actor


def _known_actor(event: dict[str, Any]) -> Actor | None:
    found = event.get("requestContext", {}).get("authorizer", {})
    if found.get("iam"):
        from shardmill.engine.access import iam  # few deployments have these routes

        return iam.actor_of(found["iam"], iam_scopes())
    return authorize.actor_of(found.get("lambda") or {})


def authenticate(event: dict[str, Any]) -> None:
    """Find the actor of a request of the AWE protocol.

    The API calls no authorizer for these requests: idle clients send them every few seconds, and a second
    function for each would cost almost as much as the answer.
    """
    context = event["requestContext"]
    if "authorizer" not in context:
        token = authorize.token_in(event.get("headers") or {}, authorize.AWE_SCHEMES)
        actor = authorize.authorizer().actor(token, now_ms())
        context["authorizer"] = {"lambda": authorize.context_of(actor)}


def check_caller(event: dict[str, Any], route: Route | None) -> Actor | None:
    """Find who sends a request; reject impossible paths and too many requests.

    A public route needs no caller. Routes of the node store have one if the request has a token.
    """
    public = route is not None and route.public
    actor = _known_actor(event) if public else actor_of(event)
    if len(event["rawPath"].encode(errors="replace")) > MAX_PATH:
        raise NoSuchPath(f"no path has more than {MAX_PATH} bytes")
    if not event["rawPath"].isprintable():
        raise NoSuchPath("no path has control characters")
    if actor is not None:
        check_rate(actor)
    return actor


def check_content(event: dict[str, Any], route: Route | None) -> None:
    """Reject unknown query parameters and invalid bodies; decode a base64 or compressed body in place."""
    if is_awe(event["rawPath"]):
        return  # their functions read the body, and ignore unknown parameters
    if route is not None and (route.documented or not route.public):  # an issuer adds a code to the page
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
    encoding = _header(event, "content-encoding").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnsupportedMedia(f"the content encoding {encoding[:50]!r} is not supported; use gzip, or none")
    if not event.get("isBase64Encoded"):
        if _REPLACEMENT in body:
            raise BadRequest("the body is not valid UTF-8")
        if body and encoding == "gzip":
            raise BadRequest("the body is not gzip")
        return str(body)
    try:
        data = base64.b64decode(body, validate=True)
        return (_inflate(data) if encoding == "gzip" else data).decode()
    except (UnicodeDecodeError, binascii.Error):
        raise BadRequest("the body is not valid UTF-8") from None


def _inflate(data: bytes) -> bytes:
    """Decompress a body, up to the maximum size of a body."""
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        inflated = stream.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise BadRequest("the body is not gzip") from None
    if len(inflated) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
    if not stream.eof or stream.unused_data:
        raise BadRequest("the body is not complete gzip data")
    return inflated


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
