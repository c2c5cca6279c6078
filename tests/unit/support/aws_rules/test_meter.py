"""Write units as billed by DynamoDB."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from support.aws_rules.faults import Faults
from support.aws_rules.items import item_bytes, write_units

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def dynamodb() -> "Iterator[DynamoDBClient]":
    with mock_aws():
        client = boto3.client("dynamodb")
        indexes: list[Any] = [
            {
                "IndexName": name,
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": kind},
            }
            for name, kind in (("all", "ALL"), ("few", "KEYS_ONLY"))
        ]
        client.create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "all", "few")
            ],
            GlobalSecondaryIndexes=indexes,
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


@pytest.fixture
def metered(dynamodb: "DynamoDBClient") -> Iterator[Faults]:
    with Faults(weigh=True) as faults:
        yield faults


@pytest.mark.parametrize(
    ("item", "size"),
    [
        ({"pk": {"S": "ab"}}, 4),
        ({"é": {"S": "é"}}, 4),
        ({"n": {"N": "0"}}, 2),
        ({"n": {"N": "1234"}}, 4),
        ({"n": {"N": "-12345"}}, 6),
        ({"b": {"BOOL": True}, "x": {"NULL": True}}, 4),
        ({"b": {"B": b"abc"}}, 4),
        ({"s": {"SS": ["a", "bc"]}}, 4),
        ({"s": {"NS": ["1", "22"]}}, 5),
        ({"l": {"L": [{"S": "ab"}, {"N": "1"}]}}, 1 + 3 + 3 + 3),
        ({"m": {"M": {"k": {"S": "ab"}}}}, 1 + 3 + 1 + 1 + 2),
    ],
)
def test_the_size_of_an_item_is_that_of_dynamodb(item: dict[str, Any], size: int) -> None:
    assert item_bytes(item) == size


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1024, 1), (1025, 2), (10_240, 10)])
def test_a_write_unit_is_a_kilobyte(size: int, units: int) -> None:
    assert write_units(size) == units


def _put(client: "DynamoDBClient", **attributes: str) -> None:
    client.put_item(TableName="t", Item={name: {"S": value} for name, value in attributes.items()})


def test_a_put_costs_the_larger_of_old_and_new(dynamodb: "DynamoDBClient", metered: Faults) -> None:
    _put(dynamodb, pk="a", x="x" * 3000)
    assert metered.meter.write_units == {"PutItem": 3}
    _put(dynamodb, pk="a")
    assert metered.meter.write_units == {"PutItem": 6}


def test_an_update_costs_the_whole_item(dynamodb: "DynamoDBClient", metered: Faults) -> None:
    _put(dynamodb, pk="a", x="x" * 3000)
    dynamodb.update_item(
        TableName="t",
        Key={"pk": {"S": "a"}},
        UpdateExpression="SET y = :y",
        ExpressionAttributeValues={":y": {"S": "y" * 1000}},
    )
    assert metered.meter.write_units["UpdateItem"] == 4
    dynamodb.delete_item(TableName="t", Key={"pk": {"S": "a"}})
    assert metered.meter.write_units["DeleteItem"] == 4
    assert metered.meter.calls == {"dynamodb.PutItem": 1, "dynamodb.UpdateItem": 1, "dynamodb.DeleteItem": 1}


def test_a_failed_condition_costs_the_existing_item(dynamodb: "DynamoDBClient", metered: Faults) -> None:
    _put(dynamodb, pk="a", x="x" * 3000)
    metered.meter.reset()
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(
            TableName="t", Item={"pk": {"S": "a"}}, ConditionExpression="attribute_not_exists(pk)"
        )
    assert metered.meter.write_units == {"PutItem": 3}


def test_transactions_cost_double_and_batches_do_not(dynamodb: "DynamoDBClient", metered: Faults) -> None:
    items: list[Any] = [{"pk": {"S": str(n)}} for n in range(3)]
    dynamodb.batch_write_item(RequestItems={"t": [{"PutRequest": {"Item": item}} for item in items]})
    dynamodb.transact_write_items(
        TransactItems=[{"Delete": {"TableName": "t", "Key": item}} for item in items]
    )
    assert metered.meter.write_units == {"BatchWriteItem": 3, "TransactWriteItems": 6}


def test_indexes_cost_when_their_projection_changes(dynamodb: "DynamoDBClient", metered: Faults) -> None:
    meter = metered.meter
    _put(dynamodb, pk="a", x="x" * 2000)
    assert meter.index_units == {}
    _put(dynamodb, pk="a", x="x" * 2000, all="1", few="1")
    assert meter.index_units == {"all": 2, "few": 1}
    meter.reset()
    _put(dynamodb, pk="a", x="y" * 2000, all="1", few="1")
    assert meter.index_units == {"all": 2}
    meter.reset()
    _put(dynamodb, pk="a", x="y" * 2000, all="2", few="2")
    assert meter.index_units == {"all": 4, "few": 2}
    assert meter.total_write_units == 6 + 2
    meter.reset()
    _put(dynamodb, pk="a", x="y" * 2000)
    assert meter.index_units == {"all": 2, "few": 1}


def test_write_units_are_not_counted_by_default(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    _put(dynamodb, pk="a")
    assert faults.meter.total_write_units == 0
    assert faults.meter.total_calls == 1


def test_units_are_counted_by_partition_of_the_table_and_of_each_index(
    dynamodb: "DynamoDBClient", metered: Faults
) -> None:
    _put(dynamodb, pk="a", few="1")
    _put(dynamodb, pk="a", few="2")
    assert metered.meter.partition_units == {"pk=a": 2, "few=1": 2, "few=2": 1}


def test_a_read_unit_is_four_kilobytes_and_half_the_price_if_it_may_be_stale(
    dynamodb: "DynamoDBClient", metered: Faults
) -> None:
    _put(dynamodb, pk="a", x="x" * 5000)
    _put(dynamodb, pk="b")
    key: Any = {"pk": {"S": "a"}}
    dynamodb.get_item(TableName="t", Key=key, ConsistentRead=True)
    dynamodb.get_item(TableName="t", Key=key)
    assert metered.meter.read_units["GetItem"] == 2 + 1
    keys: list[Any] = [{"pk": {"S": name}} for name in "abc"]
    dynamodb.batch_get_item(RequestItems={"t": {"Keys": keys, "ConsistentRead": True}})
    assert metered.meter.read_units["BatchGetItem"] == 2 + 1 + 1
    dynamodb.query(
        TableName="t", KeyConditionExpression="pk = :a", ExpressionAttributeValues={":a": {"S": "a"}}
    )
    assert metered.meter.read_units["Query"] == 1
