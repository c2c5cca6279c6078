"""The answers of the AWE protocol: `{"status", "data", "error"}`, for results and for errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.api.problems import status_of
from shardmill.engine.errors import MillError

JSON = "application/json"
MAX_TEXTS = 50


@dataclass(frozen=True, slots=True)
class AweAnswer:
    """An answer that is not only data.

    `more` are fields beside `data`, such as the paging of a list. `bare` is sent without the envelope.
    `content` is a file, which is sent as it is.
    """

    data: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    bare: bool = False
    content: bytes | None = None


def listed(data: Any, *, limit: int, offset: int, total: int, note: str = "") -> AweAnswer:
    """A list with its paging. `note` says what it leaves out, if there is more than a list looks at."""
    paging = {"limit": limit, "offset": offset, "total_count": total}
    return AweAnswer(data, more=paging | ({"note": note} if note else {}))


def response(result: Any) -> dict[str, Any]:
    """The response of a Lambda function for what a route returned: data, or an AweAnswer."""
    answer = result if isinstance(result, AweAnswer) else AweAnswer(result)
    if answer.content is not None:
        return _file(answer.content)
    body = answer.data if answer.bare else _envelope(answer.status, answer.data, None, answer.more)
    return _response(answer.status, body, answer.headers)


def fault(error: MillError) -> dict[str, Any]:
    """The response for an error; `error` has one text, or one for each fault of a document."""
    status = status_of(error).value
    texts = [f"{each['pointer']} {each['message']}".strip() for each in error.faults[:MAX_TEXTS]]
    return _response(status, _envelope(status, None, texts or [error.detail], {}), error.headers)


def _envelope(status: int, data: Any, error: list[str] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": status, "data": data, "error": error, **more}


def _file(content: bytes) -> dict[str, Any]:
    return {
        "statusCode": 200,
        "headers": {"content-type": "application/octet-stream", "cache-control": "no-store"},
        "body": base64.b64encode(content).decode(),
        "isBase64Encoded": True,
    }


def _response(status: int, body: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"content-type": JSON, **headers},
        "body": json.dumps(body, separators=(",", ":")),
        "isBase64Encoded": False,
    }
