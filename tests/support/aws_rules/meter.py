"""Count calls and DynamoDB read and write units of a scenario."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from support.aws_rules.call import Call
from support.aws_rules.items import Item, Write, item_bytes, stored, table_schema, write_units, writes_of

READ_UNIT_BYTES = 4096
_CHARGED_REFUSALS = ("ConditionalCheckFailedException", "TransactionCanceledException")


@dataclass
class Meter:
    """`calls` by "service.Operation"; `write_units` of the table by operation, of indexes by name.

    `partition_units`: the write units by partition, as "pk=JOB#…" for the table and "lk=job" for an index.
    `read_units` by operation; a query with a projection is charged for what it returns."""

    calls: Counter[str] = field(default_factory=Counter)
    write_units: Counter[str] = field(default_factory=Counter)
    index_units: Counter[str] = field(default_factory=Counter)
    partition_units: Counter[str] = field(default_factory=Counter)
    read_units: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    weigh: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def total_calls(self) -> int:
        return self.calls.total()

    @property
    def total_write_units(self) -> int:
        return self.write_units.total() + self.index_units.total()

    @property
    def total_read_units(self) -> float:
        return sum(self.read_units.values())

    def reset(self) -> None:
        for counter in (
            self.calls,
            self.write_units,
            self.index_units,
            self.partition_units,
            self.read_units,
        ):
            counter.clear()

    def count(self, call: Call) -> int:
        """Count a call; return how many calls of its name were counted so far."""
        with self._lock:
            self.calls[call.name] += 1
            return self.calls[call.name]

    def weighing(self, call: Call, make: Callable[[Call], dict[str, Any]]) -> dict[str, Any]:
        """Make the call and charge the write units of what it changed."""
        writes = [] if not self.weigh else writes_of(call)
        before = [stored(call, write) for write in writes]
        try:
            answer = make(call)
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] in _CHARGED_REFUSALS:
                for old in before:
                    self._charge(call, item_bytes(old or {}))
            raise
        for write, old in zip(writes, before, strict=True):
            self._charge_write(call, write, old, stored(call, write))
        if self.weigh and call.service == "dynamodb":
            with self._lock:
                self.read_units[call.operation] += _read_units(call, answer)
        return answer

    def _charge_write(self, call: Call, write: Write, old: Item | None, new: Item | None) -> None:
        size = max(item_bytes(old or {}), item_bytes(new or {}))
        self._charge(call, size)
        schema = table_schema(call, write.table)
        with self._lock:
            self.partition_units[_partition(schema, write.key)] += write_units(size) * _price(call)
        for index in schema.get("GlobalSecondaryIndexes", []):
            for item, units in _index_units(index, schema, old, new):
                with self._lock:
                    self.index_units[index["IndexName"]] += units * _price(call)
                    self.partition_units[_partition(index, item)] += units * _price(call)

    def _charge(self, call: Call, size: int) -> None:
        with self._lock:
            self.write_units[call.operation] += write_units(size) * _price(call)


def _price(call: Call) -> int:
    return 2 if call.operation == "TransactWriteItems" else 1


def _read_units(call: Call, answer: Mapping[str, Any]) -> float:
    """Items read one by one are rounded up each, those of a query together; an empty read costs one unit."""
    match call.operation:
        case "GetItem":
            return _read_price([answer.get("Item", {})], call.params)
        case "Query":
            size = sum(map(item_bytes, answer["Items"]))
            return max(1, -(-size // READ_UNIT_BYTES)) * _consistency(call.params)
        case "BatchGetItem":
            total = 0.0
            for table, wanted in call.params["RequestItems"].items():
                items = answer["Responses"].get(table, [])
                missing = len(wanted["Keys"]) - len(items)
                total += _read_price([*items, *([{}] * missing)], wanted)
            return total
    return 0.0


def _read_price(items: Sequence[Item], params: Mapping[str, Any]) -> float:
    units = sum(max(1, -(-item_bytes(item) // READ_UNIT_BYTES)) for item in items)
    return units * _consistency(params)


def _consistency(params: Mapping[str, Any]) -> float:
    return 1 if params.get("ConsistentRead") else 0.5


def _index_units(
    index: Mapping[str, Any], schema: Mapping[str, Any], old: Item | None, new: Item | None
) -> list[tuple[Item, int]]:
    """A put, a delete, both when the index key changed, or nothing when nothing in the index did."""
    before, after = _entry(index, schema, old), _entry(index, schema, new)
    if before == after:
        return []
    keys = _names(index)
    if before and after and all(before[name] == after[name] for name in keys):
        return [(after, write_units(max(item_bytes(before), item_bytes(after))))]
    return [(entry, write_units(item_bytes(entry))) for entry in (before, after) if entry]


def _partition(keyed: Mapping[str, Any], item: Item) -> str:
    name = _names(keyed)[0]
    [value] = item[name].values()
    return f"{name}={value}"


def _entry(index: Mapping[str, Any], schema: Mapping[str, Any], item: Item | None) -> Item | None:
    """What the index holds of an item; None if the item is not in it."""
    if item is None or not all(name in item for name in _names(index)):
        return None
    projection = index["Projection"]
    if projection["ProjectionType"] == "ALL":
        return item
    kept = {*_names(index), *_names(schema), *projection.get("NonKeyAttributes", [])}
    return {name: value for name, value in item.items() if name in kept}


def _names(keyed: Mapping[str, Any]) -> list[str]:
    return [part["AttributeName"] for part in keyed["KeySchema"]]
