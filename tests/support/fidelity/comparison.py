"""Bring requests and answers of two implementations of DynamoDB into one form."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SHOW_ITEM = "ReturnValuesOnConditionCheckFailure"
_SETS = ("SS", "NS", "BS")


def without_newer_parameters(request: dict[str, Any]) -> dict[str, Any]:
    """The request without what DynamoDB Local of 2020 does not know."""
    plain = copy.deepcopy(request)
    plain.pop(_SHOW_ITEM, None)
    for element in plain.get("TransactItems", []):
        for change in element.values():
            change.pop(_SHOW_ITEM, None)
    return plain


def outcome(operation: str, status: int, answer: Mapping[str, Any], sort: str | None = None) -> Any:
    """What an answer says, in a form that can be compared; `sort`: the attribute that orders its items."""
    if status != 200:
        return _error(answer)
    match operation:
        case "CreateTable" | "DescribeTable" | "UpdateTimeToLive" | "DescribeTimeToLive":
            return "done"
        case "BatchGetItem":
            found = answer["Responses"].items()
            items = {table: sorted(map(_item, rows), key=repr) for table, rows in found if rows}
            return {"Responses": items, "UnprocessedKeys": answer.get("UnprocessedKeys") or {}}
        case "Query" | "Scan":
            # Items with the same sort key in an index, and those of a scan, have no order.
            items = [_item(item) for item in answer["Items"]]
            return {
                "order": [item.get(sort) for item in items] if sort else None,
                "Items": sorted(items, key=repr),
                "Count": answer["Count"],
                "ScannedCount": answer["ScannedCount"],
                "LastEvaluatedKey": _item(answer.get("LastEvaluatedKey") or {}),
            }
        case "BatchWriteItem":
            return {"UnprocessedItems": answer.get("UnprocessedItems") or {}}
    return {name: _item(answer[name]) for name in ("Item", "Attributes") if answer.get(name)}


def _error(answer: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(answer.get("__type", "")).rsplit("#", 1)[-1]
    found: dict[str, Any] = {"error": kind}
    if "CancellationReasons" in answer:
        found["reasons"] = [reason.get("Code", "None") for reason in answer["CancellationReasons"]]
    return found


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in sorted(item.items())}


def _value(value: Mapping[str, Any]) -> Any:
    [(kind, content)] = value.items()
    if kind == "N":
        return ("N", Decimal(content))
    if kind == "M":
        return ("M", _item(content))
    if kind == "L":
        return ("L", [_value(each) for each in content])
    if kind in _SETS:
        return (kind, sorted(Decimal(each) if kind == "NS" else each for each in content))
    return (kind, content)


def refused_item(status: int, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The item that a failed condition returned; None if the answer is no failed condition."""
    if status == 200 or not str(answer.get("__type", "")).endswith("ConditionalCheckFailedException"):
        return None
    return _item(answer.get("Item") or {})


def stored_item(answer: Mapping[str, Any]) -> dict[str, Any]:
    return _item(answer.get("Item") or {})
