"""DynamoDB items on moto as on AWS: an update changes all or nothing, and no item exceeds 400 KB.

An update replaces an item instead of changing it in place. So each version stays as it was: an update or a
transaction is undone without copies of the table, and `support.moto.stale_reads` returns earlier versions.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from moto.dynamodb import models, responses
from moto.dynamodb.exceptions import ItemSizeTooLarge, ItemSizeToUpdateTooLarge
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models import table as tables
from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from support.aws_rules.items import MAX_ITEM_BYTES, item_bytes

Method = Callable[..., Any]
_thread = local()


class ValidationError(Exception):
    """The code in a CancellationReason, for which moto takes the name of the class."""


@contextmanager
def items_all_or_nothing() -> Iterator[None]:
    """Restore the item of an update that fails; check the size of items once, by AWS's rules.

    moto changes the item first, and estimates its size again for each attribute."""
    update: Method = DynamoDBBackend.update_item
    put: Method = DynamoDBBackend.put_item
    transact: Method = DynamoDBBackend.transact_write_items

    def update_item(self: DynamoDBBackend, table_name: str, key: dict[str, Any], **asked: Any) -> Item:
        table = self.get_table(table_name)
        place = self.get_keys_value(table, key)
        before = table.get_item(*place)
        if before is not None:
            store_item(table, *place, copy.deepcopy(before))
        try:
            item: Item = update(self, table_name, key, **asked)
            if _is_too_large(item):
                raise _too_large()
        except Exception:
            store_item(table, *place, before)
            raise
        return item

    def put_item(
        self: DynamoDBBackend, table_name: str, item_attrs: dict[str, Any], *rest: Any, **asked: Any
    ) -> Item:
        if item_bytes(item_attrs) > MAX_ITEM_BYTES:
            raise ItemSizeTooLarge
        item: Item = put(self, table_name, item_attrs, *rest, **asked)
        return item

    def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        _thread.in_transaction = True
        try:
            transact(self, transact_items)
        finally:
            _thread.in_transaction = False

    with (
        patch.object(DynamoDBBackend, "update_item", update_item),
        patch.object(DynamoDBBackend, "put_item", put_item),
        patch.object(DynamoDBBackend, "transact_write_items", transact_write_items),
        patch.object(LimitedSizeDict, "__setitem__", dict.__setitem__),
        _without_copies(),
        _sizes_computed_once(),
    ):
        yield


def _is_too_large(item: Item) -> bool:
    return item_bytes(item.to_json()["Attributes"]) > MAX_ITEM_BYTES


def _too_large() -> Exception:
    refusal = ItemSizeToUpdateTooLarge()
    return ValidationError(refusal.message) if getattr(_thread, "in_transaction", False) else refusal


def store_item(table: Table, hash_key: Any, range_key: Any, item: Item | None) -> None:
    """Make this version of an item the current one; None removes the item."""
    if item is None:
        table.delete_item(hash_key, range_key)
    elif range_key:
        table.items[hash_key][range_key] = item
    else:
        table.items[hash_key] = item  # type: ignore[assignment]


def copy_of_table(table: Table) -> Table:
    """A table with the same versions of items, which can be changed on its own."""
    clone = copy.copy(table)
    clone.items = defaultdict(dict)
    for hash_key, stored in table.items.items():
        clone.items[hash_key] = dict(stored) if table.range_key_attr else stored  # type: ignore[assignment]
    return clone


@contextmanager
def keys_that_are_not_updated() -> Iterator[None]:
    """UPDATED_NEW never contains the key; moto returns it with an item that the update created."""
    original: Method = DynamoHandler._build_updated_new_attributes

    def build(self: DynamoHandler, before: Any, after: Any) -> Any:
        updated = original(self, before, after)
        if not isinstance(updated, dict):
            return updated
        return {name: value for name, value in updated.items() if name not in self.body["Key"]}

    with patch.object(DynamoHandler, "_build_updated_new_attributes", build):
        yield


@contextmanager
def pages_that_reach_their_limit() -> Iterator[None]:
    """A query that stops at its Limit says where, even if no item follows; moto says so only if one does."""
    original: Method = Table.query

    def query(
        self: Table, key: Any, comparison: Any, values: Any, limit: int, start: Any, forward: bool,
        projection: Any, index: str | None, *rest: Any, **more: Any,
    ) -> Any:  # fmt: skip
        page = (key, comparison, values, limit, start, forward)
        results, scanned, last = original(self, *page, projection, index, *rest, **more)
        if last is None and limit and scanned == limit:
            [*_, item], _, _ = original(self, *page, None, index, *rest, **more)
            last = self._get_last_evaluated_key(item, index)
        return results, scanned, last

    with patch.object(Table, "query", query):
        yield


@contextmanager
def _without_copies() -> Iterator[None]:
    """Items that nothing changes need no copies; moto makes them for each update, query and transaction.

    Streams would need them, and the stack has none."""

    def deepcopy(value: Any, memo: Any = None) -> Any:
        if isinstance(value, Table):
            return copy_of_table(value)
        if isinstance(value, Item):
            return value
        if isinstance(value, list) and value and all(isinstance(each, Item) for each in value):
            return list(value)
        return copy.deepcopy(value, memo)

    cheap = SimpleNamespace(copy=copy.copy, deepcopy=deepcopy)
    with (
        patch.object(models, "copy", cheap),
        patch.object(responses, "copy", cheap),
        patch.object(tables, "copy", cheap),
    ):
        yield


@contextmanager
def _sizes_computed_once() -> Iterator[None]:
    """moto adds up the bytes of each item twice for each query. A copy of an item does not have its size."""
    compute: Method = Item.size

    def size(self: Item) -> int:
        kept = vars(self)
        if "kept_size" not in kept:
            kept["kept_size"] = compute(self)
        return int(kept["kept_size"])

    with patch.object(Item, "size", size):
        yield
