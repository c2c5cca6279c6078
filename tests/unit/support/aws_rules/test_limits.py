"""AWS limits that moto does not enforce."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from support.aws_rules.faults import Faults
from support.aws_rules.queues import QueueNames
from support.moto.repairs import join_execution_threads, repaired_moto
from support.waits import run_until

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_sqs import SQSClient
    from types_boto3_stepfunctions import SFNClient

ROLE = "arn:aws:iam::123456789012:role/r"


@pytest.fixture(autouse=True)
def _endpoint() -> Iterator[None]:
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}), repaired_moto():
        yield
        assert join_execution_threads(5.0) == []


@pytest.fixture
def sqs() -> "SQSClient":
    return boto3.client("sqs")


@pytest.fixture
def queue(sqs: "SQSClient") -> str:
    return sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "30"})["QueueUrl"]


@pytest.fixture
def dynamodb() -> "DynamoDBClient":
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@pytest.fixture
def stepfunctions() -> "SFNClient":
    return boto3.client("stepfunctions")


def _machine(client: "SFNClient", state: dict[str, Any]) -> str:
    definition = {"StartAt": "Only", "States": {"Only": state | {"End": True}}}
    return client.create_state_machine(name="m", definition=json.dumps(definition), roleArn=ROLE)[
        "stateMachineArn"
    ]


def _code(caught: "pytest.ExceptionInfo[ClientError]") -> str:
    return str(caught.value.response["Error"]["Code"])


def _receive(sqs: "SQSClient", queue: str, **options: Any) -> list[Any]:
    return sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options).get("Messages", [])


def _received_twice(sqs: "SQSClient", queue: str) -> tuple[str, str]:
    """Return the old and the new receipt handle of one message."""
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [first] = _receive(sqs, queue, VisibilityTimeout=0)
    [second] = _receive(sqs, queue)
    assert first["MessageId"] == second["MessageId"]
    return first["ReceiptHandle"], second["ReceiptHandle"]


def test_a_delete_with_an_old_receipt_is_ignored(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    old, new = _received_twice(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=old)
    response = sqs.delete_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": old}])
    assert [entry["Id"] for entry in response["Successful"]] == ["a"]
    assert faults.receipts.ignored_deletes == 2
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=new, VisibilityTimeout=0)
    assert len(_receive(sqs, queue)) == 1


def test_a_visibility_change_with_an_old_receipt_is_rejected(
    sqs: "SQSClient", queue: str, faults: Faults
) -> None:
    old, new = _received_twice(sqs, queue)
    with pytest.raises(ClientError) as caught:
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=old, VisibilityTimeout=1)
    assert _code(caught) == "InvalidParameterValue"
    response = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "old", "ReceiptHandle": old, "VisibilityTimeout": 1},
            {"Id": "new", "ReceiptHandle": new, "VisibilityTimeout": 1},
        ],
    )
    assert [entry["Id"] for entry in response["Failed"]] == ["old"]
    assert [entry["Id"] for entry in response["Successful"]] == ["new"]


def test_the_newest_receipt_deletes_the_message(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    _, new = _received_twice(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=new)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=new)
    count = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert count["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_message_is_hidden_for_at_most_12_hours_from_its_receipt(sqs: "SQSClient", queue: str) -> None:
    with Faults() as faults:
        sqs.send_message(QueueUrl=queue, MessageBody="m")
        [message] = _receive(sqs, queue)
        receipt = message["ReceiptHandle"]
        with pytest.raises(ClientError) as caught:
            sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=receipt, VisibilityTimeout=43_200)
        assert _code(caught) == "InvalidParameterValue"
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=receipt, VisibilityTimeout=43_000)
        faults.receipts.clock = lambda: time.monotonic() + 3600
        response = sqs.change_message_visibility_batch(
            QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": receipt, "VisibilityTimeout": 43_000}]
        )
        assert "beyond the limit" in response["Failed"][0]["Message"]


def test_messages_are_limited_to_256_kb(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x" * 262_144)
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="é" * 131_073)
    assert _code(caught) == "InvalidParameterValue"
    with pytest.raises(sqs.exceptions.BatchRequestTooLong):
        sqs.send_message_batch(
            QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "x" * 100_000} for n in range(3)]
        )


def test_batches_of_messages_are_limited_to_ten_entries(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    with pytest.raises(sqs.exceptions.TooManyEntriesInBatchRequest):
        sqs.send_message_batch(
            QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(11)]
        )
    with pytest.raises(sqs.exceptions.EmptyBatchRequest):
        sqs.delete_message_batch(QueueUrl=queue, Entries=[])
    with pytest.raises(sqs.exceptions.BatchEntryIdsNotDistinct):
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "MessageBody": "x"}] * 2)


def test_the_name_of_a_deleted_queue_is_blocked_for_a_minute(sqs: "SQSClient", queue: str) -> None:
    now = 0.0
    with Faults(rules=False) as faults:
        faults.add_rule(QueueNames(clock=lambda: now).around)
        sqs.delete_queue(QueueUrl=queue)
        now = 59.0
        with pytest.raises(sqs.exceptions.QueueDeletedRecently):
            sqs.create_queue(QueueName="q")
        sqs.create_queue(QueueName="other")
        now = 60.0
        sqs.create_queue(QueueName="q")


def test_unreliable_queues_lose_no_messages(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    faults.unreliable_queues(seed=3)
    for n in range(40):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))
    bodies: list[str] = []
    sizes = set()
    for _ in range(60):
        messages = _receive(sqs, queue)
        sizes.add(len(messages))
        bodies += [message["Body"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert set(bodies) == {str(n) for n in range(40)}
    assert bodies != sorted(bodies, key=int)
    assert len(sizes) > 3


def test_a_duplicate_has_its_own_receipt(sqs: "SQSClient", queue: str, faults: Faults) -> None:
    faults.unreliable_queues(duplicates=1.0, shuffled=False, partial=False)
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    [first], [second] = _receive(sqs, queue), _receive(sqs, queue)
    assert first["MessageId"] == second["MessageId"]
    assert first["ReceiptHandle"] != second["ReceiptHandle"]


def test_batch_writes_are_limited_to_25_items(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    def put(count: int) -> None:
        puts: list[Any] = [{"PutRequest": {"Item": {"pk": {"S": str(n)}}}} for n in range(count)]
        dynamodb.batch_write_item(RequestItems={"t": puts})

    put(25)
    with pytest.raises(ClientError, match="Too many items") as caught:
        put(26)
    assert _code(caught) == "ValidationException"
    twice: list[Any] = [{"DeleteRequest": {"Key": {"pk": {"S": "a"}}}}] * 2
    with pytest.raises(ClientError, match="duplicates"):
        dynamodb.batch_write_item(RequestItems={"t": twice})


def test_batch_gets_are_limited_to_100_items(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    keys: list[Any] = [{"pk": {"S": str(n)}} for n in range(101)]
    with pytest.raises(ClientError, match="Too many items"):
        dynamodb.batch_get_item(RequestItems={"t": {"Keys": keys}})


def test_transactions_are_limited_to_100_distinct_items(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    puts: list[Any] = [{"Put": {"TableName": "t", "Item": {"pk": {"S": str(n)}}}} for n in range(101)]
    dynamodb.transact_write_items(TransactItems=puts[:100])
    with pytest.raises(ClientError, match="less than or equal to 100"):
        dynamodb.transact_write_items(TransactItems=puts)
    with pytest.raises(ClientError, match="multiple operations on one item"):
        dynamodb.transact_write_items(TransactItems=[puts[0], puts[0]])
    big: list[Any] = [
        {"Put": {"TableName": "t", "Item": {"pk": {"S": str(n)}, "x": {"S": "x" * 400_000}}}}
        for n in range(11)
    ]
    with pytest.raises(ClientError, match="4 MB"):
        dynamodb.transact_write_items(TransactItems=big)


def test_items_are_limited_to_400_kb(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    item = {"pk": {"S": "big"}, "x": {"S": "x" * (400 * 1024 - 6)}}
    dynamodb.put_item(TableName="t", Item=item)
    too_big = item | {"x": {"S": "x" * (400 * 1024 - 5)}}
    with pytest.raises(ClientError, match="maximum allowed size"):
        dynamodb.put_item(TableName="t", Item=too_big)
    with pytest.raises(ClientError, match="maximum allowed size"):
        dynamodb.batch_write_item(RequestItems={"t": [{"PutRequest": {"Item": too_big}}]})


GROWTH: list[dict[str, Any]] = [
    {
        "UpdateExpression": "SET a = :a, b = :a, n = :n",
        "ExpressionAttributeValues": {":a": {"S": "a" * 3_000}, ":n": {"N": "2"}},
    },
    {
        "UpdateExpression": "ADD known :known SET n = n + :n",
        "ExpressionAttributeValues": {
            ":known": {"SS": [f"{number:0100}" for number in range(60)]},
            ":n": {"N": "1"},
        },
    },
    {
        "UpdateExpression": "SET entries = list_append(entries, :more)",
        "ExpressionAttributeValues": {":more": {"L": [{"S": "a" * 6_000}]}},
    },
    {
        "UpdateExpression": "SET parts.more = :text REMOVE n",
        "ExpressionAttributeValues": {":text": {"S": "a" * 6_000}},
    },
]
"""Updates by more than 5 KB."""


@pytest.mark.parametrize("growth", GROWTH)
def test_an_update_beyond_400_kb_changes_nothing(
    dynamodb: "DynamoDBClient", faults: Faults, growth: dict[str, Any]
) -> None:
    def stored(name: str) -> Any:
        return dynamodb.get_item(TableName="t", Key={"pk": {"S": name}}, ConsistentRead=True).get("Item")

    full: dict[str, Any] = {
        "pk": {"S": "full"},
        "x": {"S": "x" * 404_600},
        "n": {"N": "1"},
        "known": {"SS": ["a"]},
        "entries": {"L": [{"S": "a"}]},
        "parts": {"M": {"first": {"S": "a"}}},
    }
    dynamodb.put_item(TableName="t", Item=full)
    update: Any = {"TableName": "t", "Key": {"pk": {"S": "full"}}, **growth}
    with pytest.raises(ClientError, match="Item size to update has exceeded") as caught:
        dynamodb.update_item(**update)
    assert _code(caught) == "ValidationException"
    other: Any = {"Put": {"TableName": "t", "Item": {"pk": {"S": "other"}}}}
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=[other, {"Update": update}])
    reasons = cancelled.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ValidationError"]
    assert (stored("full"), stored("other")) == (full, None)

    dynamodb.put_item(TableName="t", Item=full | {"x": {"S": ""}})
    dynamodb.transact_write_items(TransactItems=[{"Update": update}])
    assert stored("full") != full | {"x": {"S": ""}}


def test_a_new_item_beyond_400_kb_is_not_created(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    key = {"pk": {"S": "new"}}
    with pytest.raises(ClientError, match="Item size to update has exceeded"):
        dynamodb.update_item(
            TableName="t",
            Key=key,
            UpdateExpression="SET x = :x",
            ExpressionAttributeValues={":x": {"S": "x" * 409_600}},
        )
    assert "Item" not in dynamodb.get_item(TableName="t", Key=key)


def test_concurrent_transactions_on_one_item_conflict(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    def transact(n: int) -> list[str]:
        update: Any = {
            "TableName": "t",
            "Key": {"pk": {"S": "shared"}},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        own: Any = {"TableName": "t", "Item": {"pk": {"S": f"own-{n}"}}}
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": own}, {"Update": update}])
        except dynamodb.exceptions.TransactionCanceledException as error:
            return [reason["Code"] for reason in error.response["CancellationReasons"]]
        return []

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(transact, range(8)))
    assert [] in outcomes
    assert ["None", "TransactionConflict"] in outcomes
    item = dynamodb.get_item(TableName="t", Key={"pk": {"S": "shared"}})["Item"]
    assert int(item["n"]["N"]) == outcomes.count([])


def test_a_plain_write_conflicts_with_a_transaction(dynamodb: "DynamoDBClient", faults: Faults) -> None:
    put: list[Any] = [{"Put": {"TableName": "t", "Item": {"pk": {"S": "shared"}}}}]

    def write() -> bool:
        try:
            dynamodb.delete_item(TableName="t", Key={"pk": {"S": "shared"}})
        except dynamodb.exceptions.TransactionConflictException:
            return True
        return False

    def conflicts_with_a_transaction() -> bool:
        with ThreadPoolExecutor(1) as pool:
            transaction = pool.submit(dynamodb.transact_write_items, TransactItems=put)
            while not transaction.done():
                if write():
                    return True
        return False

    run_until(conflicts_with_a_transaction)
    assert not write()


def test_execution_names_are_limited_to_80_characters(stepfunctions: "SFNClient", faults: Faults) -> None:
    machine = _machine(stepfunctions, {"Type": "Pass"})
    stepfunctions.start_execution(stateMachineArn=machine, name="n" * 80)
    for name in ("n" * 81, "with space", "a/b"):
        with pytest.raises(stepfunctions.exceptions.InvalidName):
            stepfunctions.start_execution(stateMachineArn=machine, name=name)


def test_execution_names_cannot_be_reused(stepfunctions: "SFNClient", faults: Faults) -> None:
    machine = _machine(stepfunctions, {"Type": "Wait", "Seconds": 60})

    def start(input_: str = "{}") -> str:
        return stepfunctions.start_execution(stateMachineArn=machine, name="n", input=input_)["executionArn"]

    arn = start()
    assert start() == arn
    with pytest.raises(stepfunctions.exceptions.ExecutionAlreadyExists):
        start('{"other": 1}')
    stepfunctions.stop_execution(executionArn=arn)
    with pytest.raises(stepfunctions.exceptions.ExecutionAlreadyExists):
        start()


def test_state_is_limited_to_256_kb(stepfunctions: "SFNClient", faults: Faults) -> None:
    machine = _machine(stepfunctions, {"Type": "Pass"})
    with pytest.raises(ClientError) as caught:
        stepfunctions.start_execution(
            stateMachineArn=machine, name="n", input=json.dumps({"x": "x" * 262_144})
        )
    assert _code(caught) == "ValidationException"
    with pytest.raises(ClientError) as caught:
        stepfunctions.send_task_success(taskToken="t", output=json.dumps("x" * 262_143))
    assert _code(caught) == "ValidationException"


def test_a_task_token_can_be_used_once(
    stepfunctions: "SFNClient", sqs: "SQSClient", queue: str, faults: Faults
) -> None:
    machine = _machine(
        stepfunctions,
        {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": queue, "MessageBody": {"token.$": "$$.Task.Token"}},
        },
    )
    arn = stepfunctions.start_execution(stateMachineArn=machine, name="n")["executionArn"]
    [message] = run_until(lambda: _receive(sqs, queue))
    token = json.loads(message["Body"])["token"]
    stepfunctions.send_task_success(taskToken=token, output="{}")
    with pytest.raises(stepfunctions.exceptions.TaskTimedOut):
        stepfunctions.send_task_success(taskToken=token, output="{}")
    run_until(lambda: stepfunctions.describe_execution(executionArn=arn)["status"] == "SUCCEEDED")


def test_lambda_payloads_are_limited_to_6_mb(faults: Faults) -> None:
    with pytest.raises(ClientError) as caught:
        boto3.client("lambda").invoke(FunctionName="f", Payload=b"x" * (6 * 1024 * 1024 + 1))
    assert _code(caught) == "RequestTooLargeException"
