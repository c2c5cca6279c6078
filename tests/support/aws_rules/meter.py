"""Count calls and DynamoDB write units of a scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from support.aws_rules.call import Call
from support.aws_rules.items import Item, Write, item_bytes, stored, table_schema, write_units, writes_of

_CHARGED_REFUSALS = ("ConditionalCheckFailedException", "TransactionCanceledException")


@dataclass
class Meter:
    """`calls` by "service.Operation"; `write_units` of the table by operation, of indexes by name."""

    calls: Counter[str] = field(default_factory=Counter)
    write_units: Counter[str] = field(default_factory=Counter)
    index_units: Counter[str] = field(default_factory=Counter)
    weigh: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def total_calls(self) -> int:
        return self.calls.total()

    @property
    def total_write_units(self) -> int:
        return self.write_units.total() + self.index_units.total()

    def reset(self) -> None:
        for counter in (self.calls, self.write_units, self.index_units):
            counter.clear()

    def count(self, call: Call) -> int:
        """One more call; the how-manieth of its name it is."""
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
        return answer

    def _charge_write(self, call: Call, write: Write, old: Item | None, new: Item | None) -> None:
        self._charge(call, max(item_bytes(old or {}), item_bytes(new or {})))
        schema = table_schema(call, write.table)
        for index in schema.get("GlobalSecondaryIndexes", []):
            units = _index_units(index, schema, old, new) * _price(call)
            if units:
                with self._lock:
                    self.index_units[index["IndexName"]] += units

    def _charge(self, call: Call, size: int) -> None:
        with self._lock:
            self.write_units[call.operation] += write_units(size) * _price(call)


def _price(call: Call) -> int:
    return 2 if call.operation == "TransactWriteItems" else 1


def _index_units(
    index: Mapping[str, Any], schema: Mapping[str, Any], old: Item | None, new: Item | None
) -> int:
    """A put, a delete, both when the index key changed, or nothing when nothing in the index did."""
    before, after = _entry(index, schema, old), _entry(index, schema, new)
    if before == after:
        return 0
    keys = _names(index)
    if before and after and all(before[name] == after[name] for name in keys):
        return write_units(max(item_bytes(before), item_bytes(after)))
    return sum(write_units(item_bytes(entry)) for entry in (before, after) if entry)


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
