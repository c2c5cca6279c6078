"""Speedups of moto: its responses stay the same, and each speedup is still needed."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws
from moto.core.models import responses_mock
from moto.core.serialize import AttributePicker
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.utils import json_path

from shardmill.worker.transport.clock import MeasuredClock
from support.moto import speedups
from support.moto.direct_requests import direct_requests
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
    "only B": {"M": {"B": {"S": "x"}}},
    "only BS": {"M": {"BS": {"S": "x"}}},
}


def endpoint() -> Any:
    return mock_aws(config={"stepfunctions": {"execute_state_machine": True}})


@contextmanager
def faster_endpoint() -> Iterator[None]:
    with speedups.faster_moto(), endpoint(), direct_requests():
        yield


def _create_table(client: Any) -> None:
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def _read_back() -> tuple[Any, ...]:
    """Return an item with every type of value from every operation that returns items."""
    client = boto3.client("dynamodb")
    _create_table(client)
    key = {"pk": {"S": "k"}}
    client.put_item(TableName="t", Item=key | VALUES)
    query = {"KeyConditionExpression": "pk = :k", "ExpressionAttributeValues": {":k": key["pk"]}}
    batch = client.batch_get_item(RequestItems={"t": {"Keys": [key]}})
    transaction = client.transact_get_items(TransactItems=[{"Get": {"TableName": "t", "Key": key}}])
    changed = client.update_item(
        TableName="t", Key=key, UpdateExpression="REMOVE blank", ReturnValues="ALL_OLD"
    )
    return (
        client.get_item(TableName="t", Key=key, ConsistentRead=True)["Item"],
        client.query(TableName="t", **query)["Items"],
        client.scan(TableName="t")["Items"],
        batch["Responses"],
        transaction["Responses"][0]["Item"],
        changed["Attributes"],
    )


def test_speedups_do_not_change_items() -> None:
    with endpoint():
        plain = _read_back()
    with faster_endpoint():
        assert _read_back() == plain
    assert plain[-1] == {"pk": {"S": "k"}} | VALUES


def test_speedups_do_not_change_errors() -> None:
    def errors() -> Any:
        client = boto3.client("dynamodb")
        with pytest.raises(client.exceptions.ResourceNotFoundException) as error:
            client.get_item(TableName="none", Key={"pk": {"S": "k"}})
        machines = boto3.client("stepfunctions")
        for _ in range(2):
            with pytest.raises(machines.exceptions.ClientError, match="ASLParserException"):
                machines.create_state_machine(name="m", definition="{}", roleArn=ROLE)
        return error.value.response["Error"]

    with endpoint():
        plain = errors()
    with faster_endpoint():
        assert errors() == plain


def _refused() -> Any:
    """Return the answers to writes whose conditions fail, alone and in a transaction, and what they left."""
    client = boto3.client("dynamodb")
    _create_table(client)
    item = {"pk": {"S": "k"}, "bytes": {"B": b"\x00"}}
    client.put_item(TableName="t", Item=item)
    once: Any = {
        "TableName": "t",
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    other: Any = {"TableName": "t", "Item": {"pk": {"S": "other"}}}
    errors = []
    for refused in (
        lambda: client.put_item(Item={"pk": {"S": "k"}}, **once),
        lambda: client.transact_write_items(TransactItems=[{"Put": other}, {"Put": {"Item": item, **once}}]),
    ):
        with pytest.raises(client.exceptions.ClientError) as error:
            refused()
        errors.append(
            {name: error.value.response.get(name) for name in ("Error", "Item", "CancellationReasons")}
        )
    return errors, client.scan(TableName="t")["Items"]


def test_speedups_do_not_change_refusals() -> None:
    with endpoint():
        plain = _refused()
    with faster_endpoint():
        assert _refused() == plain
    assert plain[0][0]["Item"]["bytes"] == {"B": b"\x00"}
    assert len(plain[1]) == 1


def test_a_client_whose_clock_is_measured_makes_requests() -> None:
    clock, measured = MeasuredClock(), list[str]()
    with faster_endpoint():
        client = boto3.client("dynamodb")
        _create_table(client)
        clock.watch(client)
        with patch.object(clock, "observe", lambda date, *_: measured.append(date)):
            client.get_item(TableName="t", Key={"pk": {"S": "k"}})
    assert len(measured) == 1


def _updated() -> Any:
    """Return an item after an update with every kind of clause, and the errors of invalid updates."""
    client = boto3.client("dynamodb")
    _create_table(client)
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
    one: Any = {"TableName": "t", "Key": key, "ExpressionAttributeValues": {":one": {"N": "1"}}}
    for expression in ("SET a = missing", "SET a = :none", "SET pk = :one", "SET pk = :one"):
        with pytest.raises(client.exceptions.ClientError) as error:
            client.update_item(UpdateExpression=expression, **one)
        errors.append(error.value.response["Error"])
    for name in ("other", "other", "pk"):
        try:
            client.update_item(UpdateExpression="SET #a = :one", ExpressionAttributeNames={"#a": name}, **one)
        except client.exceptions.ClientError as refusal:
            errors.append({"name": name, **refusal.response["Error"]})
    return client.get_item(TableName="t", Key=key)["Item"], errors


def test_speedups_do_not_change_updates() -> None:
    with endpoint():
        plain = _updated()
    with faster_endpoint():
        assert _updated() == plain
    assert plain[0]["count"] == {"N": "2"}
    assert [error["name"] for error in plain[1] if "name" in error] == ["pk"]


def _delivered() -> Any:
    """Return what senders, receivers and deleters of messages are answered, but for ids and times."""
    client = boto3.client("sqs")
    url = client.create_queue(QueueName="q")["QueueUrl"]
    sent = client.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"{n}", "DelaySeconds": 0} for n in range(3)]
    )
    received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=2, AttributeNames=["All"])["Messages"]
    receipts = [message["ReceiptHandle"] for message in received]
    hidden = client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipts[0], VisibilityTimeout=0)
    deleted = client.delete_message_batch(
        QueueUrl=url, Entries=[{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(receipts)]
    )
    left = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    empty = client.receive_message(QueueUrl=url)
    with pytest.raises(client.exceptions.ClientError) as error:
        client.receive_message(QueueUrl=f"{url}-none")
    return (
        [(one["Id"], one["MD5OfMessageBody"]) for one in sent["Successful"]],
        [(one["Body"], one["Attributes"]["ApproximateReceiveCount"]) for one in received],
        [sorted(one["Attributes"]) for one in received],
        sorted(hidden),
        deleted["Successful"],
        [one["Body"] for one in left],
        sorted(empty),
        error.value.response["Error"],
    )


def test_speedups_do_not_change_messages() -> None:
    with endpoint():
        plain = _delivered()
    with faster_endpoint():
        assert _delivered() == plain
    assert plain[1] == [("0", "1"), ("1", "1")]


def _queried() -> Any:
    """Return the pages of queries of a table and of an index, in both directions."""
    client = boto3.client("dynamodb")
    keys = {name: {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "gk", "gs")}

    def schema(hash_key: str, range_key: str) -> Any:
        names = {"HASH": hash_key, "RANGE": range_key}
        return [{"AttributeName": name, "KeyType": kind} for kind, name in names.items()]

    index = {"IndexName": "by-g", "KeySchema": schema("gk", "gs"), "Projection": {"ProjectionType": "ALL"}}
    client.create_table(
        TableName="t",
        KeySchema=schema("pk", "sk"),
        AttributeDefinitions=list(keys.values()),  # type: ignore[arg-type]
        GlobalSecondaryIndexes=[index],  # type: ignore[list-item]
        BillingMode="PAY_PER_REQUEST",
    )
    for number in (3, 1, 4, 0, 5, 2):
        item = {"pk": f"p{number % 2}", "sk": f"s{number}", "gk": f"g{number % 3}", "gs": "same"}
        if number == 4:
            del item["gs"]  # not in the index
        client.put_item(TableName="t", Item={name: {"S": value} for name, value in item.items()})
    pages = client.get_paginator("query")
    return [
        [
            [item["sk"]["S"] for item in page["Items"]]
            for page in pages.paginate(
                TableName="t",
                KeyConditionExpression=f"{name} = :k",
                ExpressionAttributeValues={":k": {"S": value}},
                ScanIndexForward=forward,
                Limit=2,
                **({"IndexName": "by-g"} if name == "gk" else {}),  # type: ignore[arg-type]
            )
        ]
        for name, value in (("pk", "p1"), ("pk", "none"), ("gk", "g0"), ("gk", "g1"), ("gk", "none"))
        for forward in (True, False)
    ]


def test_speedups_do_not_change_queries() -> None:
    with endpoint():
        plain = _queried()
    with faster_endpoint():
        assert _queried() == plain
    assert plain[:2] == [[["s1", "s3"], ["s5"]], [["s5", "s3"], ["s1"]]]
    assert plain[6] == [["s1"]]


def test_speedups_do_not_change_presigned_urls() -> None:
    def presigned() -> str:
        client = boto3.client("s3", config=Config(signature_version="s3v4"))
        with patch("botocore.auth.get_current_datetime", lambda: datetime(2026, 1, 1)):  # noqa: DTZ001
            return client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})

    with endpoint():
        plain = presigned()
    with speedups.faster_moto(), endpoint():
        assert presigned() == plain
    assert "X-Amz-Signature=" in plain


def test_json_paths_are_parsed_once() -> None:
    with speedups.faster_moto():
        assert json_path.parse("$.a.b") is json_path.parse("$.a.b")
        assert json_path.extract_json("$.a.b", {"a": {"b": 1}}) == 1
        assert json_path.extract_json("$.a.b", {"a": {"b": 2}}) == 2
        with pytest.raises(json_path.NoSuchJsonPathError):
            json_path.extract_json("$.a.b", {})


def test_faster_moto_picks_few_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    picks = []
    original: Callable[..., Any] = AttributePicker.__call__

    def pick(self: AttributePicker, context: Any) -> Any:
        picks.append(context.key)
        return original(self, context)

    monkeypatch.setattr(AttributePicker, "__call__", pick)
    with endpoint():
        _read_back()
    plain = len(picks)
    with speedups.faster_moto(), endpoint():
        _read_back()
    assert plain > 10 * (len(picks) - plain), "moto no longer needs this speedup: remove it"


def test_faster_moto_registers_no_mocks_of_the_responses_library() -> None:
    with endpoint():
        assert len(responses_mock.registered()) > 1000, "moto no longer needs this speedup: remove it"
    with speedups.faster_moto(), endpoint():
        assert responses_mock.registered() == []


def _times_parsed(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a new definition is parsed when it is saved and executed three times."""
    parses = []
    original: Callable[..., Any] = ASLParser.state_machine

    def state_machine(self: ASLParser) -> Any:
        parses.append(1)
        return original(self)

    monkeypatch.setattr(ASLParser, "state_machine", state_machine)
    client = boto3.client("stepfunctions")
    states = {"Only": {"Type": "Pass", "Comment": str(time.monotonic()), "End": True}}
    definition = json.dumps({"StartAt": "Only", "States": states})
    machine = client.create_state_machine(name="m", definition=definition, roleArn=ROLE)["stateMachineArn"]
    for n in range(3):
        arn = client.start_execution(stateMachineArn=machine, name=str(n))["executionArn"]
        run_until(lambda arn=arn: _status(arn) == "SUCCEEDED")  # type: ignore[misc]
    return len(parses)


def _status(arn: str) -> str:
    return boto3.client("stepfunctions").describe_execution(executionArn=arn)["status"]


def test_faster_moto_parses_a_definition_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with speedups.faster_moto(), endpoint():
        assert _times_parsed(monkeypatch) == 1


def test_plain_moto_parses_a_definition_at_each_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint():
        assert _times_parsed(monkeypatch) == 4
