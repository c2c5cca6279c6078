"""Injected faults, on moto."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from moto import mock_aws

from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults, everywhere_once
from support.watch import observing, unwatch

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_sqs import SQSClient


@pytest.fixture
def dynamodb() -> "Iterator[DynamoDBClient]":
    with mock_aws():
        yield _table()


@pytest.fixture
def sqs() -> "Iterator[SQSClient]":
    with mock_aws():
        yield boto3.client("sqs")


def _table() -> "DynamoDBClient":
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def _count(client: "DynamoDBClient") -> int:
    response = client.update_item(
        TableName="t",
        Key={"pk": {"S": "counter"}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="ALL_NEW",
    )
    return int(response["Attributes"]["n"]["N"])


def _counted(client: "DynamoDBClient") -> int:
    item = client.get_item(TableName="t", Key={"pk": {"S": "counter"}}).get("Item", {"n": {"N": "0"}})
    return int(item["n"]["N"])


def test_a_fault_before_the_call_prevents_it(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    fault = faults.fail(service="dynamodb", operation="UpdateItem", nth=2, how="before")
    assert _count(dynamodb) == 1
    with pytest.raises(EndpointConnectionError):
        _count(dynamodb)
    assert fault.hits == 1
    assert _count(dynamodb) == 2


def test_a_fault_after_the_call_loses_the_response(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", "UpdateItem", how="after")
    with pytest.raises(ReadTimeoutError):
        _count(dynamodb)
    assert _counted(dynamodb) == 1


def test_a_crash_is_not_caught_by_exception_handlers(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", "UpdateItem", how="crash")

    def handle_exceptions() -> None:
        try:
            _count(dynamodb)
        except Exception:
            pytest.fail("a crash was handled")

    with pytest.raises(ProcessKilled):
        handle_exceptions()
    assert _counted(dynamodb) == 1


def test_a_repeated_call_returns_the_second_response(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", "PutItem", how="repeat")
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(
            TableName="t", Item={"pk": {"S": "new"}}, ConditionExpression="attribute_not_exists(pk)"
        )
    assert "Item" in dynamodb.get_item(TableName="t", Key={"pk": {"S": "new"}})


@pytest.mark.parametrize(
    ("service", "operation", "params", "code"),
    [
        ("dynamodb", "list_tables", {}, "ProvisionedThroughputExceededException"),
        ("sqs", "list_queues", {}, "RequestThrottled"),
        ("stepfunctions", "list_state_machines", {}, "ThrottlingException"),
        ("events", "list_rules", {}, "ThrottlingException"),
        ("s3", "list_buckets", {}, "SlowDown"),
        ("lambda", "list_functions", {}, "TooManyRequestsException"),
    ],
)
def test_each_service_has_its_own_throttling_error(
    faults: Faults, service: Any, operation: str, params: dict[str, Any], code: str
) -> None:
    with mock_aws():
        faults.fail(service=service, how="throttle")
        client = boto3.client(service)
        with pytest.raises(ClientError) as caught:
            getattr(client, operation)(**params)
        assert caught.value.response["Error"]["Code"] == code
        assert isinstance(caught.value, client.exceptions.from_code(code))
        getattr(client, operation)(**params)


def test_a_fault_can_repeat(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", how="throttle", times=3)
    for _ in range(3):
        with pytest.raises(dynamodb.exceptions.ProvisionedThroughputExceededException):
            _count(dynamodb)
    assert _count(dynamodb) == 1


def test_faults_can_be_cleared(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", times=100)
    faults.clear_faults()
    assert _count(dynamodb) == 1


def test_a_fault_can_select_calls_by_a_predicate(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail(when=lambda call: call.params.get("Item", {}).get("pk") == {"S": "b"})
    dynamodb.put_item(TableName="t", Item={"pk": {"S": "a"}})
    with pytest.raises(EndpointConnectionError):
        dynamodb.put_item(TableName="t", Item={"pk": {"S": "b"}})


def test_random_faults_are_reproducible_by_seed(dynamodb: "DynamoDBClient") -> None:
    def failed(seed: int) -> list[int]:
        numbers = []
        with Faults() as faults:
            faults.sometimes(0.5, seed=seed)
            for number in range(20):
                try:
                    _counted(dynamodb)
                except ClientError:
                    numbers.append(number)
        return numbers

    assert failed(1) == failed(1) != failed(2)
    assert 3 < len(failed(1)) < 17


def test_a_batch_of_messages_can_fail_partially(sqs: "SQSClient", faults: Faults) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    faults.fail("sqs", "SendMessageBatch", how="partial", times=2)
    response = sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(4)]
    )
    assert [entry["Id"] for entry in response["Successful"]] == ["0", "1"]
    assert [entry["Id"] for entry in response["Failed"]] == ["2", "3"]
    one = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "alone"}])
    assert [entry["Id"] for entry in one["Failed"]] == ["0"]
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert {message["Body"] for message in messages} == {"0", "1"}


def test_a_batch_of_items_can_fail_partially(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", "BatchWriteItem", how="partial")
    puts: list[Any] = [{"PutRequest": {"Item": {"pk": {"S": str(n)}}}} for n in range(4)]
    assert dynamodb.batch_write_item(RequestItems={"t": puts})["UnprocessedItems"] == {"t": puts[2:]}
    faults.fail("dynamodb", "BatchGetItem", how="partial")
    keys: list[Any] = [{"pk": {"S": str(n)}} for n in range(4)]
    response = dynamodb.batch_get_item(RequestItems={"t": {"Keys": keys}})
    assert len(response["Responses"]["t"]) == 2
    assert response["UnprocessedKeys"] == {"t": {"Keys": keys[2:]}}


def test_only_batches_can_fail_partially(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", "UpdateItem", how="partial")
    with pytest.raises(ValueError, match=r"dynamodb\.UpdateItem is not a batch"):
        _count(dynamodb)


def test_calls_are_counted_in_all_threads(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _counted(dynamodb), range(20)))
    assert faults.meter.calls == {"dynamodb.GetItem": 20}
    assert faults.meter.total_calls == 20
    faults.meter.reset()
    assert faults.meter.total_calls == 0


def test_calls_of_the_test_itself_are_not_counted(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    faults.fail("dynamodb", times=100)
    with observing():
        assert _counted(dynamodb) == 0
    unwatch(dynamodb)
    assert _counted(dynamodb) == 0
    assert faults.meter.total_calls == 0


def test_faults_end_with_their_context(dynamodb: "DynamoDBClient") -> None:
    with Faults() as faults:
        faults.fail("dynamodb", times=100)
    assert _count(dynamodb) == 1


def test_everywhere_once_fails_every_call_once() -> None:
    seen = []
    for run in everywhere_once():
        with run, mock_aws():
            client = _table()
            with run.armed():
                try:
                    _count(client)
                    _count(client)
                    client.delete_item(TableName="t", Key={"pk": {"S": "other"}})
                except (EndpointConnectionError, ReadTimeoutError):
                    assert run.hit
            seen.append((str(run.fault), _counted(client)))
    assert seen == [
        ("None", 2),
        ("dynamodb.UpdateItem number 1 failing 'before'", 0),
        ("dynamodb.UpdateItem number 1 failing 'after'", 1),
        ("dynamodb.UpdateItem number 2 failing 'before'", 1),
        ("dynamodb.UpdateItem number 2 failing 'after'", 2),
        ("dynamodb.DeleteItem number 1 failing 'before'", 2),
        ("dynamodb.DeleteItem number 1 failing 'after'", 2),
    ]


def test_an_error_in_a_run_is_annotated_with_its_fault() -> None:
    def scenario() -> None:
        for run in everywhere_once(ways=["crash"], only=lambda call: call.operation == "UpdateItem"):
            with run, mock_aws():
                client = _table()
                with run.armed():
                    _counted(client)
                    _count(client)

    with pytest.raises(ProcessKilled) as caught:
        scenario()
    assert caught.value.__notes__ == ["in the run with dynamodb.UpdateItem number 1 failing 'crash'"]


def test_a_scenario_without_calls_is_rejected() -> None:
    with pytest.raises(ValueError, match="no AWS call"):
        list(everywhere_once())
