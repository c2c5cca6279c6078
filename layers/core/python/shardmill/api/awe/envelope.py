"""The answers of the AWE protocol: `{"status", "data", "error"}`, for results and for errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.api.problems import status_of
from shardmill.engine.errors import MillError

JSON = "application/json"
MAX_TEXTS = 50
MAX_RESPONSE_BYTES = 5_000_000
"""A response of Lambda has at most 6 MB."""
_LISTS = ("inputs", "outputs", "predata", "dependsOn")
_NOT_SHOWN = "the job is too large for one answer: its tasks are shown without files, dependencies and info"


@dataclass(frozen=True, slots=True)
class AweAnswer:
    """An answer with more than data.

    `more` are fields beside `data`, such as the paging of a list. `bare` is sent without the envelope.
    `content` is a file, which is sent as it is.
    """

    data: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    bare: bool = False
    content: bytes | None = None


def listed(found: Iterable[Any], *, limit: int, offset: int, total: int, note: str = "") -> AweAnswer:
    """A list with its paging: as many documents as fit into one response, and at least one.

    `note` describes the omitted items, if there are more than the list reads.
    """
    data: list[Any] = []
    room = MAX_RESPONSE_BYTES
    for document in found:
        room -= response_size(document)
        if data and room < 0:
            limit = len(data)
            note = (
                note or f"more than {limit} entries are too large for one answer; ask for the next by offset"
            )
            break
        data.append(document)
    paging = {"limit": limit, "offset": offset, "total_count": total}
    return AweAnswer(data, more=paging | ({"note": note} if note else {}))


def job_answer(job: dict[str, Any]) -> AweAnswer:
    """A job; the tasks of a very large one have no details."""
    shown = fitting_job(job)
    return AweAnswer(shown, more={} if shown is job else {"note": _NOT_SHOWN})


def fitting_job(job: dict[str, Any]) -> dict[str, Any]:
    """A job that fits into a response."""
    if response_size(job) <= MAX_RESPONSE_BYTES:
        return job
    empty: dict[str, Any] = {"info": {}, "userattr": {}, "partinfo": None, **{name: [] for name in _LISTS}}
    return {**job, "tasks": [{**task, **empty} for task in job["tasks"]]}


def last_part(text: str) -> str:
    """The end of a text that fits into a response; bytes that are not text become longer in JSON."""
    while response_size(text) > MAX_RESPONSE_BYTES:
        text = text[len(text) // 2 :]
    return text


def response_size(data: Any) -> int:
    """The size of data in a response of Lambda, whose body is JSON inside a JSON string."""
    return len(json.dumps(json.dumps(data, separators=(",", ":"))))


def response(result: Any) -> dict[str, Any]:
    """The response of a Lambda function for the return value of a route: data, or an AweAnswer."""
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
