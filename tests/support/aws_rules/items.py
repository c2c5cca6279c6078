"""Sizes and addresses of DynamoDB items by AWS's rules."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from botocore.client import BaseClient

from support.aws_rules.call import Call

Item = Mapping[str, Mapping[str, Any]]
Address = tuple[str, tuple[str, ...]]

MAX_ITEM_BYTES = 400 * 1024
WRITE_UNIT_BYTES = 1024
_schemas: WeakKeyDictionary[BaseClient, dict[str, dict[str, Any]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Write:
    """One item that a call writes: its place, and what is put there (None: worked out by the service)."""

    table: str
    key: Item
    put: Item | None = None

    @property
    def address(self) -> Address:
        return self.table, tuple(str(sorted(self.key[name].items())) for name in sorted(self.key))


def item_bytes(item: Item) -> int:
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "B":
            return len(b64decode(content) if isinstance(content, str) else content)
        case "N":
            return _number_bytes(content)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + _value_bytes(element) for element in content)
        case "M":
            return 3 + sum(
                len(name.encode()) + 1 + _value_bytes(element) for name, element in content.items()
            )
        case "SS" | "NS" | "BS":
            return sum(_value_bytes({kind[0]: element}) for element in content)
    raise ValueError(f"not a DynamoDB type: {kind}")


def _number_bytes(text: str) -> int:
    digits = text.lstrip("-").split("E")[0].replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + text.startswith("-")


def write_units(size: int) -> int:
    return max(1, -(-size // WRITE_UNIT_BYTES))


def table_schema(call: Call, table: str) -> dict[str, Any]:
    """DescribeTable, asked once for each client."""
    known = _schemas.setdefault(call.client, {})
    if table not in known:
        known[table] = call.beside("DescribeTable", TableName=table)["Table"]
    return known[table]


def key_of(call: Call, table: str, item: Item) -> Item:
    return {
        part["AttributeName"]: item[part["AttributeName"]] for part in table_schema(call, table)["KeySchema"]
    }


def writes_of(call: Call) -> list[Write]:
    """Every item that this call writes or locks."""
    return list(_writes(call)) if call.service == "dynamodb" else []


def _writes(call: Call) -> Iterator[Write]:
    params = call.params
    match call.operation:
        case "PutItem":
            yield _put(call, params["TableName"], params["Item"])
        case "UpdateItem" | "DeleteItem":
            yield Write(params["TableName"], params["Key"])
        case "BatchWriteItem":
            for table, requests in params["RequestItems"].items():
                for request in requests:
                    if "PutRequest" in request:
                        yield _put(call, table, request["PutRequest"]["Item"])
                    else:
                        yield Write(table, request["DeleteRequest"]["Key"])
        case "TransactWriteItems":
            for element in params["TransactItems"]:
                [(action, request)] = element.items()
                if action == "Put":
                    yield _put(call, request["TableName"], request["Item"])
                else:
                    yield Write(request["TableName"], request["Key"])


def _put(call: Call, table: str, item: Item) -> Write:
    return Write(table, key_of(call, table, item), item)


def stored(call: Call, write: Write) -> Item | None:
    """The item as it is in the table now."""
    item: Item | None = call.beside("GetItem", TableName=write.table, Key=write.key, ConsistentRead=True).get(
        "Item"
    )
    return item
