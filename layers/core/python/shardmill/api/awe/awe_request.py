"""A request of the AWE protocol, as the functions of its routes get it."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from shardmill.api.awe import envelope
from shardmill.api.awe.multipart import Part, is_multipart, read_parts
from shardmill.api.request_checks import actor_of
from shardmill.api.routes import Route
from shardmill.aws.clock import now_ms
from shardmill.engine.access.errors import Unauthorized
from shardmill.engine.errors import BadRequest
from shardmill.model.actor import Actor
from shardmill.model.awe.names import decode_id

ROOT = "/awe"
_SECONDS = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,18})?\Z")
_ANONYMOUS = Actor("", ())


@dataclass(frozen=True, slots=True)
class AweRequest:
    """`ids` are the parameters of the path, decoded. `base` is the address of this server's `/awe`."""

    actor: Actor
    ids: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    base: str
    source_ip: str
    now: int

    def has(self, name: str) -> bool:
        """Whether a flag or parameter is in the query: `?suspend`, or `?name=value`."""
        return name in self.query

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, default).strip()

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """A number of the query. Raises BadRequest if it is not an integer in the range."""
        given = self.text(name)
        if not given:
            return default
        digits = given.removeprefix("-")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 18:
            raise BadRequest(f"{name} must be an integer, not {given[:64]!r}")
        if not least <= int(given) <= most:
            raise BadRequest(f"{name} must be between {least} and {most}, not {given[:64]}")
        return int(given)

    def limit(self, default: int, most: int) -> int:
        """How many entries of a list are wanted; 0 means as many as one answer has."""
        return min(self.number("limit", default, least=0, most=10**9) or most, most)

    def seconds(self, name: str, *, most: int) -> int | None:
        """Whole seconds of the query, which may have decimals; None if they are missing or negative.

        Raises BadRequest if they are not a number.
        """
        given = self.text(name)
        if not given:
            return None
        if not _SECONDS.match(given):
            raise BadRequest(f"{name} must be a number of seconds, not {given[:64]!r}")
        found = int(given.partition(".")[0])
        return None if given.startswith("-") else min(found, most)

    def parts(self) -> dict[str, Part]:
        """The fields of a multipart body; none if the body is empty, or something else."""
        kind = self.headers.get("content-type", "")
        return read_parts(self.body, kind) if self.body and is_multipart(kind) else {}

    def document(self, field: str) -> bytes:
        """A document: the field of a multipart body with this name, or else the whole body."""
        if not is_multipart(self.headers.get("content-type", "")):
            return self.body
        parts = self.parts()
        if field not in parts:
            cwl = "; CWL documents are not supported" if "cwl" in parts else ""
            raise BadRequest(f"the multipart body has no field {field!r}; send the document in it{cwl}")
        return parts[field].content


def answer(event: dict[str, Any], route: Route) -> dict[str, Any]:
    """Answer a request of the AWE protocol."""
    function: Callable[[AweRequest], Any] = route.load()
    return envelope.response(function(read_request(event, route)))


def read_request(event: dict[str, Any], route: Route) -> AweRequest:
    headers = {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    found = route.parameters(event["rawPath"])
    http = event["requestContext"]["http"]
    return AweRequest(
        actor=_actor(event, route),
        ids={name: decode_id(unquote(value)) for name, value in found.items()},
        query=event.get("queryStringParameters") or {},
        headers=headers,
        body=_body(event),
        base=_base(headers, event),
        source_ip=str(http.get("sourceIp", "")),
        now=now_ms(),
    )


def _actor(event: dict[str, Any], route: Route) -> Actor:
    """The actor of the token; a public route is also answered without one."""
    try:
        return actor_of(event)
    except Unauthorized:
        if not route.public:
            raise
        return _ANONYMOUS


def _body(event: dict[str, Any]) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(body).encode(errors="surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        raise BadRequest("the body is not valid base64") from None


def _base(headers: Mapping[str, str], event: dict[str, Any]) -> str:
    host = headers.get("host") or event["requestContext"].get("domainName", "")
    return f"{headers.get('x-forwarded-proto') or 'http'}://{host}{ROOT}"


def parse_json(body: bytes, what: str) -> Any:
    """Parse a JSON document. Raises BadRequest if it is not JSON, or has a text that is not valid Unicode."""
    try:
        found = json.loads(body.decode("utf-8-sig"))
        if b"\\u" in body:
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError:
        raise BadRequest(f"{what} contains half of a surrogate pair, which is not valid Unicode") from None
    except RecursionError:
        raise BadRequest(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise BadRequest(f"{what} is not valid JSON: {error}") from None
