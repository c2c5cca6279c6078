"""Batch calls that AWS accepts only in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.aws_rules.call import Call

Finish = Callable[[dict[str, Any]], dict[str, Any]]


def part_of(call: Call) -> tuple[Call, Finish]:
    """The call with the first half of its batch, and what turns its answer into that of the whole."""
    if call.service == "sqs" and call.operation.endswith("Batch"):
        return _entries(call)
    if call.name == "dynamodb.BatchWriteItem":
        return _requests(call, "UnprocessedItems")
    if call.name == "dynamodb.BatchGetItem":
        return _keys(call)
    raise ValueError(f"{call.name} is not a batch: it cannot fail in part")


def _entries(call: Call) -> tuple[Call, Finish]:
    entries = call.params["Entries"]
    taken = entries[: len(entries) // 2]
    failed = [
        {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError", "Message": "try again"}
        for entry in entries[len(taken) :]
    ]

    def finish(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"Failed": [*answer.get("Failed", []), *failed]}

    return (call.having(Entries=taken), finish) if taken else (_nothing(call), finish)


def _requests(call: Call, left_name: str) -> tuple[Call, Finish]:
    items = call.params["RequestItems"]
    taken = {table: requests[: len(requests) // 2] for table, requests in items.items()}
    left = {table: requests[len(taken[table]) :] for table, requests in items.items()}

    def finish(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {left_name: left}

    return _some(call, {table: requests for table, requests in taken.items() if requests}), finish


def _keys(call: Call) -> tuple[Call, Finish]:
    items = call.params["RequestItems"]
    half = {
        table: asked | {"Keys": asked["Keys"][: len(asked["Keys"]) // 2]} for table, asked in items.items()
    }
    left = {
        table: asked | {"Keys": asked["Keys"][len(half[table]["Keys"]) :]} for table, asked in items.items()
    }

    def finish(answer: dict[str, Any]) -> dict[str, Any]:
        return {"Responses": {}} | answer | {"UnprocessedKeys": left}

    return _some(call, {table: asked for table, asked in half.items() if asked["Keys"]}), finish


def _some(call: Call, requests: dict[str, Any]) -> Call:
    return call.having(RequestItems=requests) if requests else _nothing(call)


def _nothing(call: Call) -> Call:
    """A call that is not made; its answer is an empty success."""
    return Call(
        call.client,
        call.operation,
        call.params,
        lambda client, operation, params: {"ResponseMetadata": {"HTTPStatusCode": 200}},
    )
