"""Items of moto's tables: their sizes are those of the version that is stored."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item

from support.moto.items import items_all_or_nothing

KEY = {"pk": {"S": "k"}}


def _size() -> int:
    table = dynamodb_backends["123456789012"]["us-east-1"].get_table("t")
    item = table.get_item(DynamoType(KEY["pk"]))
    assert item is not None
    return item.size()


def _query(client: Any) -> Any:
    values = {":k": KEY["pk"]}
    answer = client.query(TableName="t", KeyConditionExpression="pk = :k", ExpressionAttributeValues=values)
    return answer["Items"]


def _table() -> Any:
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def _sizes_after_changes() -> list[int]:
    """The size of an item after each kind of write, with reads in between."""
    client = _table()
    sizes = []
    values = {":text": {"S": "x" * 50}}

    def update(expression: str, **more: Any) -> None:
        client.update_item(TableName="t", Key=KEY, UpdateExpression=expression, **more)

    for change in (
        lambda: update("SET a = :text", ExpressionAttributeValues=values),
        lambda: update("SET b = :text", ExpressionAttributeValues=values),
        lambda: client.put_item(TableName="t", Item=KEY | {"c": {"L": [{"N": "1"}, {"S": "four"}]}}),
        lambda: update("SET c[0] = :text", ExpressionAttributeValues=values),
        lambda: update("REMOVE c"),
    ):
        change()
        assert len(_query(client)) == 1
        sizes.append(_size())
    return sizes


def test_the_size_of_an_item_follows_its_changes() -> None:
    with mock_aws():
        plain = _sizes_after_changes()
    with mock_aws(), items_all_or_nothing():
        assert _sizes_after_changes() == plain
    assert len(set(plain)) == len(plain)


def test_the_size_of_a_version_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[[Item], int] = Item.size
    computed: list[Item] = []

    def size(self: Item) -> int:
        computed.append(self)
        return original(self)

    monkeypatch.setattr(Item, "size", size)
    with mock_aws():
        client = _table()
        client.put_item(TableName="t", Item=KEY)
        assert _query(client) == _query(client) == [KEY]
        assert len(computed) == 4, "moto no longer needs this speedup: remove it"
    computed.clear()
    with mock_aws(), items_all_or_nothing():
        client = _table()
        client.put_item(TableName="t", Item=KEY)
        assert _query(client) == _query(client) == [KEY]
        assert len(computed) == 1
