"""The DynamoDB table: thin calls that take Python values and raise the exceptions of the store."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shardmill.model.errors import Transient
from shardmill.store.codec import decode_item, encode, encode_item
from shardmill.store.update import Item, Update

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

TRANSACTION_LIMIT = 100
MAX_BATCH = 100
"""The most items that one BatchGetItem returns."""
_CONFLICT_TRIES = 8


class ConditionFailed(Exception):
    """The condition of a write failed; `old` is the item as it is."""

    def __init__(self, old: Item | None) -> None:
        super().__init__(self.__doc__)
        self.old = old


class RowGone(ConditionFailed):
    """The condition of a write failed because the row does not exist; it was deleted concurrently."""


class TransactionRefused(Exception):
    """A transaction was cancelled because a condition failed; `failed` has the indexes of its requests."""

    def __init__(self, failed: list[int]) -> None:
        super().__init__(f"{self.__doc__} (items {failed})")
        self.failed = failed


class Throttled(Transient):
    """DynamoDB left part of a batch unprocessed after several attempts; retry later."""


class Contended(Transient):
    """The items are being modified concurrently; read them again, or retry later."""


class Table:
    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self._client = client
        self.name = name

    def get(self, key: Item, *, consistent: bool = True) -> Item | None:
        answer = self._client.get_item(TableName=self.name, Key=encode_item(key), ConsistentRead=consistent)
        return decode_item(answer["Item"]) if "Item" in answer else None

    def put_new(self, item: Item) -> None:
        """Put an item whose key does not exist yet; else raise ConditionFailed with the existing item."""
        self._write(
            self._client.put_item,
            Item=encode_item(item),
            ConditionExpression="attribute_not_exists(pk)",
        )

    def update(self, update: Update, *, returns: str = "NONE") -> Item:
        """Apply an update; `returns` is the ReturnValues parameter."""
        answer = self._write(self._client.update_item, ReturnValues=returns, **update.request())
        return decode_item(answer.get("Attributes", {}))

    def _write(self, call: Callable[..., Any], **request: Any) -> Any:
        """Make a conditional write; retries while a transaction holds the item."""
        for wait in _backoff(_CONFLICT_TRIES):
            try:
                return call(TableName=self.name, ReturnValuesOnConditionCheckFailure="ALL_OLD", **request)
            except ClientError as error:
                if error.response["Error"]["Code"] != "TransactionConflictException":
                    raise _condition_failed(error) from error
            time.sleep(wait)
        raise Contended

    def delete(self, key: Item) -> Item:
        """Delete an item and return it; an empty item if it did not exist."""
        answer = self._client.delete_item(TableName=self.name, Key=encode_item(key), ReturnValues="ALL_OLD")
        return decode_item(answer.get("Attributes", {}))

    def delete_if(self, condition: Update) -> None:
        """Delete an item if a condition holds; else raise ConditionFailed with the item."""
        self._write(self._client.delete_item, **condition.condition())

    def batch_get(
        self, keys: Sequence[Item], *, consistent: bool = True, only: Sequence[str] = ()
    ) -> list[Item]:
        """The items that exist, in any order; `only`: the attributes to read, all if it is empty."""
        found: list[Item] = []
        names = {f"#o{at}": name for at, name in enumerate(dict.fromkeys(only))}
        projection = {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
        keys = list({tuple(key.items()): key for key in keys}.values())  # DynamoDB rejects duplicate keys
        for at in range(0, len(keys), MAX_BATCH):
            wanted: Any = {
                self.name: {
                    "Keys": [encode_item(key) for key in keys[at : at + MAX_BATCH]],
                    "ConsistentRead": consistent,
                    **(projection if only else {}),
                }
            }
            for wait in _backoff():
                answer = self._client.batch_get_item(RequestItems=wanted)
                found.extend(decode_item(item) for item in answer["Responses"].get(self.name, []))
                wanted = answer.get("UnprocessedKeys")
                if not wanted:
                    break
                time.sleep(wait)
            else:
                raise Throttled
        return found

    def batch_put(self, items: Sequence[Item]) -> None:
        for at in range(0, len(items), 25):
            requests = [{"PutRequest": {"Item": encode_item(item)}} for item in items[at : at + 25]]
            self._batch_write({self.name: requests})

    def batch_delete(self, keys: Sequence[Item]) -> None:
        for at in range(0, len(keys), 25):
            requests = [{"DeleteRequest": {"Key": encode_item(key)}} for key in keys[at : at + 25]]
            self._batch_write({self.name: requests})

    def _batch_write(self, wanted: Any) -> None:
        for wait in _backoff():
            wanted = self._client.batch_write_item(RequestItems=wanted).get("UnprocessedItems")
            if not wanted:
                return
            time.sleep(wait)
        raise Throttled

    def query(
        self,
        partition: tuple[str, str],
        *,
        index: str | None = None,
        between: tuple[str, Any, Any] | None = None,
        prefix: tuple[str, str] | None = None,
        newest_first: bool = False,
        consistent: bool = False,
        only: Sequence[str] = (),
        limit: int | None = None,
        start: Item | None = None,
    ) -> Iterator[Item]:
        """The items of a partition of the table or of an index, read page by page as the caller iterates.

        `only`: the attributes to read; all if it is empty.
        """
        names = {"#p": partition[0]}
        values: Item = {":p": partition[1]}
        condition = "#p = :p"
        if between:
            names["#s"], values[":a"], values[":b"] = between
            condition += " AND #s BETWEEN :a AND :b"
        if prefix:
            names["#s"], values[":a"] = prefix
            condition += " AND begins_with(#s, :a)"
        wanted = {f"#o{at}": name for at, name in enumerate(only)}
        request: Item = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ProjectionExpression": ", ".join(wanted) or None,
            "ExpressionAttributeNames": names | wanted,
            "ExpressionAttributeValues": {name: encode(value) for name, value in values.items()},
            "ScanIndexForward": not newest_first,
            "ConsistentRead": consistent or None,
            "IndexName": index,
            "Limit": limit,
            "ExclusiveStartKey": encode_item(start) if start else None,
        }
        request = {name: value for name, value in request.items() if value is not None}
        while True:
            answer = self._client.query(**request)
            yield from map(decode_item, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def put_request(self, item: Item, *, new: bool = False) -> Item:
        """A Put request of a transaction."""
        put: Item = {"TableName": self.name, "Item": encode_item(item)}
        if new:
            put["ConditionExpression"] = "attribute_not_exists(pk)"
        return {"Put": put}

    def update_request(self, update: Update) -> Item:
        return {"Update": {"TableName": self.name, **update.request()}}

    def check_request(self, update: Update) -> Item:
        """A ConditionCheck request of a transaction, with the conditions of an update."""
        return {"ConditionCheck": {"TableName": self.name, **update.condition()}}

    def delete_request(self, key: Item, condition: Update | None = None) -> Item:
        request = condition.condition() if condition else {"Key": encode_item(key)}
        return {"Delete": {"TableName": self.name, **request}}

    def transact(self, requests: Sequence[Item], *, tries: int = _CONFLICT_TRIES) -> None:
        """Write all or nothing; retries on conflicts, raises TransactionRefused if a condition fails."""
        for wait in _backoff(tries):
            try:
                self._client.transact_write_items(TransactItems=list(requests))  # type: ignore[arg-type]
                return
            except ClientError as error:
                if error.response["Error"]["Code"] != "TransactionCanceledException":
                    raise
                reasons = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
                failed = [at for at, code in enumerate(reasons) if code == "ConditionalCheckFailed"]
                if failed:
                    raise TransactionRefused(failed) from error
                if "TransactionConflict" not in reasons and "ThrottlingError" not in reasons:
                    raise
            time.sleep(wait)
        raise Contended


def _backoff(tries: int = 8) -> Iterator[float]:
    for attempt in range(tries):
        yield random.uniform(0, 0.02 * 2**attempt)


def _condition_failed(error: ClientError) -> Exception:
    if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
        return error
    old: Any = error.response.get("Item")
    return ConditionFailed(decode_item(old)) if old else RowGone(None)
