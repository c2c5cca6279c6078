"""Conversion between Python and DynamoDB values; whole numbers become int, binary becomes bytes."""

from __future__ import annotations

import json
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer


class _Reader(TypeDeserializer):
    def _deserialize_n(self, value: str) -> int | float:
        return int(value) if value.lstrip("-").isdigit() else float(value)

    def _deserialize_b(self, value: bytes) -> bytes:
        return value


_serialize = TypeSerializer().serialize
_deserialize = _Reader().deserialize


def encode(value: Any) -> Any:
    """Convert a value for DynamoDB; strings, by far the most common, bypass the serializer."""
    return {"S": value} if type(value) is str else _serialize(value)


def encode_item(item: dict[str, Any]) -> dict[str, Any]:
    return {name: encode(value) for name, value in item.items() if value is not None}


def decode_item(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value["S"] if "S" in value else _deserialize(value) for name, value in item.items()}


def to_json(value: Any) -> str:
    """The JSON text of a value that no DynamoDB expression looks into."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
