"""Eventually consistent reads, which moto does not have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from support.aws_rules.faults import Faults
from support.aws_rules.stale_reads import StaleReads, stale_reads
from support.moto.repairs import repaired_moto
from support.watch import observing

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

READS = 40


class Clock:
    ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def dynamodb() -> "Iterator[DynamoDBClient]":
    with mock_aws(), repaired_moto():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="t",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "color")
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "colors",
                    "KeySchema": [{"AttributeName": "color", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stale(clock: Clock, faults: Faults) -> Iterator[StaleReads]:
    with stale_reads(faults.add_rule, clock=clock) as rule:
        yield rule


def key(name: str) -> Any:
    return {"pk": {"S": "p"}, "sk": {"S": name}}


def paint(client: "DynamoDBClient", name: str, color: str) -> None:
    client.update_item(
        TableName="t",
        Key=key(name),
        UpdateExpression="SET color = :c",
        ExpressionAttributeValues={":c": {"S": color}},
    )


def colors(client: "DynamoDBClient", name: str, **options: Any) -> set[str | None]:
    """All answers of several reads of an item."""
    answers = (client.get_item(TableName="t", Key=key(name), **options).get("Item") for _ in range(READS))
    return {item["color"]["S"] if item else None for item in answers}


def listed(client: "DynamoDBClient", color: str) -> set[frozenset[str]]:
    """All answers of several queries of the index."""
    found = set()
    for _ in range(READS):
        answer = client.query(
            TableName="t",
            IndexName="colors",
            KeyConditionExpression="color = :c",
            ExpressionAttributeValues={":c": {"S": color}},
        )
        found.add(frozenset(item["sk"]["S"] for item in answer["Items"]))
    return found


def test_a_read_may_return_any_recent_version(
    dynamodb: "DynamoDBClient", clock: Clock, stale: StaleReads
) -> None:
    paint(dynamodb, "a", "red")
    clock.ms += 600
    paint(dynamodb, "a", "green")
    clock.ms += 400
    assert colors(dynamodb, "a") == {None, "red", "green"}
    clock.ms += 1
    assert colors(dynamodb, "a") == {"red", "green"}
    clock.ms += 600
    assert colors(dynamodb, "a") == {"green"}
    assert stale.outdated > 0


def test_a_consistent_read_returns_the_newest_version(dynamodb: "DynamoDBClient", stale: StaleReads) -> None:
    paint(dynamodb, "a", "red")
    assert colors(dynamodb, "a", ConsistentRead=True) == {"red"}
    batch: Any = {"t": {"Keys": [key("a")], "ConsistentRead": True}}
    assert all(dynamodb.batch_get_item(RequestItems=batch)["Responses"]["t"] for _ in range(READS))
    query: Any = {
        "TableName": "t",
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "p"}},
    }
    assert all(dynamodb.query(ConsistentRead=True, **query)["Items"] for _ in range(READS))
    assert not all(dynamodb.query(**query)["Items"] for _ in range(READS))
    del batch["t"]["ConsistentRead"]
    assert not all(dynamodb.batch_get_item(RequestItems=batch)["Responses"]["t"] for _ in range(READS))


def test_an_index_misses_new_entries_and_shows_old_ones(
    dynamodb: "DynamoDBClient", clock: Clock, stale: StaleReads
) -> None:
    paint(dynamodb, "old", "red")
    clock.ms += 2000
    paint(dynamodb, "old", "green")
    paint(dynamodb, "new", "red")
    assert listed(dynamodb, "red") == {
        frozenset(),
        frozenset({"old"}),
        frozenset({"new"}),
        frozenset({"old", "new"}),
    }
    clock.ms += 1001
    assert listed(dynamodb, "red") == {frozenset({"new"})}


def test_a_deleted_item_is_visible_for_a_moment(
    dynamodb: "DynamoDBClient", clock: Clock, stale: StaleReads
) -> None:
    paint(dynamodb, "a", "red")
    clock.ms += 2000
    dynamodb.delete_item(TableName="t", Key=key("a"))
    assert colors(dynamodb, "a") == {None, "red"}
    assert listed(dynamodb, "red") == {frozenset(), frozenset({"a"})}


def test_a_write_sees_the_newest_version(dynamodb: "DynamoDBClient", stale: StaleReads) -> None:
    paint(dynamodb, "a", "red")
    for _ in range(READS):
        dynamodb.update_item(
            TableName="t",
            Key=key("a"),
            UpdateExpression="ADD n :one",
            ConditionExpression="color = :red",
            ExpressionAttributeValues={":one": {"N": "1"}, ":red": {"S": "red"}},
        )
    item = dynamodb.get_item(TableName="t", Key=key("a"), ConsistentRead=True)["Item"]
    assert item["n"] == {"N": str(READS)}


def test_a_transaction_that_is_cancelled_leaves_no_versions(
    dynamodb: "DynamoDBClient", clock: Clock, stale: StaleReads
) -> None:
    paint(dynamodb, "a", "red")
    clock.ms += 2000
    put: Any = {"TableName": "t", "Item": key("a") | {"color": {"S": "green"}}}
    check: Any = {"TableName": "t", "Key": key("b"), "ConditionExpression": "attribute_exists(pk)"}
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException):
        dynamodb.transact_write_items(TransactItems=[{"Put": put}, {"ConditionCheck": check}])
    assert colors(dynamodb, "a") == {"red"}
    dynamodb.transact_write_items(TransactItems=[{"Put": put}])
    assert colors(dynamodb, "a") == {"red", "green"}


def test_the_reads_of_the_test_itself_are_consistent(dynamodb: "DynamoDBClient", stale: StaleReads) -> None:
    paint(dynamodb, "a", "red")
    with observing():
        assert colors(dynamodb, "a") == {"red"}


def test_stale_reads_are_reproducible_by_seed(dynamodb: "DynamoDBClient", clock: Clock) -> None:
    def answers(seed: int) -> list[bool]:
        with Faults() as faults, stale_reads(faults.add_rule, seed=seed, clock=clock):
            dynamodb.put_item(TableName="t", Item=key(str(seed)))
            reads = [dynamodb.get_item(TableName="t", Key=key(str(seed))) for _ in range(READS)]
            dynamodb.delete_item(TableName="t", Key=key(str(seed)))
        return ["Item" in answer for answer in reads]

    assert answers(1) == answers(1) != answers(2)
