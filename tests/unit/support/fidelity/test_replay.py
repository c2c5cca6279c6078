"""Recordings of moto's answers: what is recorded, and which differences a replay reports."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from support.fidelity.recorder import Recorder
from support.fidelity.replay import Replay
from support.moto.repairs import repaired_moto

TABLE: dict[str, Any] = {
    "TableName": "t",
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
KEY = {"pk": {"S": "a"}, "sk": {"S": "1"}}


class Judge:
    """Stands in for DynamoDB Local: answers from a list, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append((operation, request))
        if operation in ("CreateTable", "DeleteTable"):
            return 200, {}
        return self.answers.pop(0)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder()
    made.folder = tmp_path
    with mock_aws(), made.recording(), repaired_moto():
        boto3.client("dynamodb").create_table(**TABLE)
        yield made


def replay(recorder: Recorder, *answers: tuple[int, dict[str, Any]]) -> tuple[Any, Judge]:
    assert recorder.folder is not None
    assert recorder._file is not None
    recorder._file.flush()
    judge = Judge(*answers)
    newest = max(recorder.folder.iterdir(), key=lambda file: int(file.stem.rsplit("-", 1)[1]))
    return Replay(judge).run(newest), judge  # type: ignore[arg-type]


def test_numbers_and_sets_are_compared_by_value(recorder: Recorder) -> None:
    item: dict[str, Any] = {**KEY, "n": {"N": "1.50"}, "s": {"SS": ["a", "b"]}}
    client = boto3.client("dynamodb")
    client.put_item(TableName="t", Item=item)
    client.get_item(TableName="t", Key=KEY)
    same = {"Item": {**KEY, "n": {"N": "1.5"}, "s": {"SS": ["b", "a"]}}}
    assert replay(recorder, (200, {}), (200, same))[0] is None
    other = {"Item": {**KEY, "n": {"N": "1.6"}, "s": {"SS": ["b", "a"]}}}
    difference, _ = replay(recorder, (200, {}), (200, other))
    assert difference.operation == "GetItem"
    assert "1.6" in str(difference)


def test_the_item_that_a_failed_condition_returns_is_compared_with_the_stored_one(recorder: Recorder) -> None:
    client = boto3.client("dynamodb")
    client.put_item(TableName="t", Item=KEY)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(
            TableName="t",
            Item=KEY,
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    refused = (400, {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"})
    difference, judge = replay(recorder, (200, {}), refused, (200, {"Item": KEY}))
    assert difference is None
    assert "ReturnValuesOnConditionCheckFailure" not in judge.asked[2][1]
    assert replay(recorder, (200, {}), refused, (200, {"Item": {**KEY, "x": {"S": "y"}}}))[0] is not None
    assert replay(recorder, (200, {}), (200, {}))[0].recorded == {"error": "ConditionalCheckFailedException"}


def test_a_transaction_larger_than_the_judge_takes_is_sent_in_parts(recorder: Recorder) -> None:
    items: Any = [
        {"Put": {"TableName": "t", "Item": {"pk": {"S": "a"}, "sk": {"S": str(number)}}}}
        for number in range(12)
    ]
    boto3.client("dynamodb").transact_write_items(TransactItems=items)
    difference, judge = replay(recorder, (200, {}), (200, {}))
    assert difference is None
    assert [len(request["TransactItems"]) for name, request in judge.asked if "Transact" in name] == [10, 2]


def test_answers_with_earlier_versions_are_not_compared(recorder: Recorder) -> None:
    with recorder.outdated():
        boto3.client("dynamodb").get_item(TableName="t", Key=KEY)
    assert replay(recorder, (200, {"Item": KEY}))[0] is None


def test_items_that_a_test_replaced_begin_another_recording(recorder: Recorder) -> None:
    boto3.client("dynamodb").put_item(TableName="t", Item=KEY)
    recorder.contents_replaced()
    _, judge = replay(recorder, (200, {}))
    assert [name for name, _ in judge.asked] == ["CreateTable", "BatchWriteItem", "DeleteTable"]
    [put] = judge.asked[1][1]["RequestItems"]["t"]
    assert json.loads(json.dumps(put["PutRequest"]["Item"])) == KEY
