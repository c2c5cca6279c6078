"""Speedups of moto: its responses stay the same, and each speedup is still needed."""

import json
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core.models import responses_mock
from moto.core.serialize import AttributePicker
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.utils import json_path

from support.moto import speedups
from support.waits import run_until

ROLE = "arn:aws:iam::123456789012:role/r"
VALUES = {
    "text": {"S": "a"},
    "blank": {"S": ""},
    "number": {"N": "1.5"},
    "bytes": {"B": b"\x00\xff"},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "many bytes": {"BS": [b"\x00", b"\xff"]},
    "map": {"M": {"S": {"S": "x"}, "inner": {"M": {"n": {"N": "2"}, "b": {"B": b"\x01"}}}}},
    "list": {"L": [{"N": "1"}, {"NULL": True}, {"L": []}, {"M": {}}]},
    "nothing": {"NULL": True},
    "no": {"BOOL": False},
}


def endpoint() -> Any:
    return mock_aws(config={"stepfunctions": {"execute_state_machine": True}})


def _read_back() -> tuple[Any, ...]:
    """One item with every kind of value, in every answer that has items in it."""
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    key = {"pk": {"S": "k"}}
    client.put_item(TableName="t", Item=key | VALUES)
    query = {"KeyConditionExpression": "pk = :k", "ExpressionAttributeValues": {":k": key["pk"]}}
    batch = client.batch_get_item(RequestItems={"t": {"Keys": [key]}})
    gotten = client.transact_get_items(TransactItems=[{"Get": {"TableName": "t", "Key": key}}])
    changed = client.update_item(
        TableName="t", Key=key, UpdateExpression="REMOVE blank", ReturnValues="ALL_OLD"
    )
    return (
        client.get_item(TableName="t", Key=key, ConsistentRead=True)["Item"],
        client.query(TableName="t", **query)["Items"],
        client.scan(TableName="t")["Items"],
        batch["Responses"],
        gotten["Responses"][0]["Item"],
        changed["Attributes"],
    )


def test_items_are_the_same() -> None:
    with endpoint():
        plain = _read_back()
    with speedups.faster_moto(), endpoint():
        assert _read_back() == plain
    assert plain[-1] == {"pk": {"S": "k"}} | VALUES


def test_refusals_are_the_same() -> None:
    def refused() -> Any:
        client = boto3.client("dynamodb")
        with pytest.raises(client.exceptions.ResourceNotFoundException) as refusal:
            client.get_item(TableName="none", Key={"pk": {"S": "k"}})
        machines = boto3.client("stepfunctions")
        for _ in range(2):
            with pytest.raises(machines.exceptions.ClientError, match="ASLParserException"):
                machines.create_state_machine(name="m", definition="{}", roleArn=ROLE)
        return refusal.value.response["Error"]

    with endpoint():
        plain = refused()
    with speedups.faster_moto(), endpoint():
        assert refused() == plain


def _updated() -> Any:
    """An item after an update with every kind of clause, and the errors of invalid ones."""
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    key = {"pk": {"S": "k"}}
    client.put_item(TableName="t", Item=key | {"old": {"S": "x"}, "count": {"N": "1"}, "list": {"L": []}})
    client.update_item(
        TableName="t",
        Key=key,
        UpdateExpression="SET #n = if_not_exists(#n, :zero) + :one, #l = list_append(#l, :more), m = :map"
        " REMOVE #old ADD #c :one DELETE tags :tags",
        ExpressionAttributeNames={"#n": "n", "#l": "list", "#old": "old", "#c": "count"},
        ExpressionAttributeValues={
            ":zero": {"N": "0"},
            ":one": {"N": "1"},
            ":more": {"L": [{"S": "y"}]},
            ":map": {"M": {"a": {"S": "b"}}},
            ":tags": {"SS": ["t"]},
        },
    )
    errors = []
    for expression in ("SET a = missing", "SET a = :none", "SET pk = :one"):
        with pytest.raises(client.exceptions.ClientError) as refusal:
            client.update_item(
                TableName="t",
                Key=key,
                UpdateExpression=expression,
                ExpressionAttributeValues={":one": {"N": "1"}},
            )
        errors.append(refusal.value.response["Error"])
    return client.get_item(TableName="t", Key=key)["Item"], errors


def test_updates_are_the_same() -> None:
    with endpoint():
        plain = _updated()
    with speedups.faster_moto(), endpoint():
        assert _updated() == plain
    assert plain[0]["count"] == {"N": "2"}


def test_json_paths_are_parsed_once() -> None:
    with speedups.faster_moto():
        assert json_path.parse("$.a.b") is json_path.parse("$.a.b")
        assert json_path.extract_json("$.a.b", {"a": {"b": 1}}) == 1
        assert json_path.extract_json("$.a.b", {"a": {"b": 2}}) == 2
        with pytest.raises(json_path.NoSuchJsonPathError):
            json_path.extract_json("$.a.b", {})


def test_values_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    original: Callable[..., Any] = AttributePicker.__call__

    def look(self: AttributePicker, context: Any) -> Any:
        looks.append(context.key)
        return original(self, context)

    monkeypatch.setattr(AttributePicker, "__call__", look)
    with endpoint():
        _read_back()
    plain = len(looks)
    with speedups.faster_moto(), endpoint():
        _read_back()
    assert plain > 10 * (len(looks) - plain), "moto is quicker by now: drop this speedup"


def test_nothing_is_made_for_another_library() -> None:
    with endpoint():
        assert len(responses_mock.registered()) > 1000, "moto makes fewer by now: drop this speedup"
    with speedups.faster_moto(), endpoint():
        assert responses_mock.registered() == []


def _times_parsed(monkeypatch: pytest.MonkeyPatch) -> int:
    """How often three executions of a definition never seen before have it parsed."""
    counted = []
    original: Callable[..., Any] = ASLParser.state_machine

    def state_machine(self: ASLParser) -> Any:
        counted.append(1)
        return original(self)

    monkeypatch.setattr(ASLParser, "state_machine", state_machine)
    client = boto3.client("stepfunctions")
    states = {"Only": {"Type": "Pass", "Comment": str(time.monotonic()), "End": True}}
    definition = json.dumps({"StartAt": "Only", "States": states})
    machine = client.create_state_machine(name="m", definition=definition, roleArn=ROLE)["stateMachineArn"]
    for n in range(3):
        arn = client.start_execution(stateMachineArn=machine, name=str(n))["executionArn"]
        run_until(lambda arn=arn: _status(arn) == "SUCCEEDED")  # type: ignore[misc]
    return len(counted)


def _status(arn: str) -> str:
    return boto3.client("stepfunctions").describe_execution(executionArn=arn)["status"]


def test_a_definition_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with speedups.faster_moto(), endpoint():
        assert _times_parsed(monkeypatch) == 1


def test_moto_alone_still_parses_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint():
        assert _times_parsed(monkeypatch) == 4
