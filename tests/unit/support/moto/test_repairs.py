"""Repairs of moto: each one works, and is still needed."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb.models.table import Table
from moto.sqs.models import Message
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from support.moto import repairs
from support.waits import run_until

ROLE = "arn:aws:iam::123456789012:role/r"


@pytest.fixture(autouse=True)
def _endpoint() -> Iterator[None]:
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield


@pytest.fixture
def _slow_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause moto between check and update, so that races occur every time."""
    get_item: Callable[..., Any] = Table.get_item
    mark_received: Callable[..., Any] = Message.mark_received

    def get_item_slowly(self: Table, *args: Any, **kwargs: Any) -> Any:
        found = get_item(self, *args, **kwargs)
        time.sleep(0.1)
        return found

    def mark_received_slowly(self: Message, visibility_timeout: int) -> None:
        time.sleep(0.1)
        mark_received(self, visibility_timeout)

    monkeypatch.setattr(Table, "get_item", get_item_slowly)
    monkeypatch.setattr(Message, "mark_received", mark_received_slowly)


def _winners_of_a_conditional_put() -> int:
    """Return how many of 4 threads succeed in creating the same item."""
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def put(_: int) -> int:
        try:
            client.put_item(
                TableName="t", Item={"pk": {"S": "a"}}, ConditionExpression="attribute_not_exists(pk)"
            )
        except client.exceptions.ConditionalCheckFailedException:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(put, range(4)))


def _receivers_of_a_message() -> int:
    """Return how many of 4 threads receive the same message."""
    client = boto3.client("sqs")
    url = client.create_queue(QueueName="q")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="m")

    def receive(_: int) -> int:
        return len(client.receive_message(QueueUrl=url).get("Messages", []))

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(receive, range(4)))


_RACES = [_winners_of_a_conditional_put, _receivers_of_a_message]


@pytest.mark.usefixtures("_slow_updates")
@pytest.mark.parametrize("race", _RACES)
def test_repaired_moto_checks_and_updates_atomically(race: Callable[[], int]) -> None:
    with repairs.repaired_moto():
        assert race() == 1


@pytest.mark.usefixtures("_slow_updates")
@pytest.mark.parametrize("race", _RACES)
def test_plain_moto_is_not_atomic(race: Callable[[], int]) -> None:
    assert race() > 1, "moto no longer needs the repair: remove it"


def test_a_waiting_receive_does_not_block_a_send() -> None:
    client = boto3.client("sqs")
    with repairs.one_queue_move_at_a_time():
        url = client.create_queue(QueueName="q")["QueueUrl"]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.receive_message, QueueUrl=url, WaitTimeSeconds=5)
            time.sleep(0.1)
            client.send_message(QueueUrl=url, MessageBody="m")
            assert len(waiting.result()["Messages"]) == 1
        assert "Messages" not in client.receive_message(QueueUrl=url, WaitTimeSeconds=1)


def _start(state: dict[str, Any], name: str = "n") -> str:
    client = boto3.client("stepfunctions")
    definition = {"StartAt": "Only", "States": {"Only": state}}
    machine = client.create_state_machine(name="m", definition=json.dumps(definition), roleArn=ROLE)
    return client.start_execution(stateMachineArn=machine["stateMachineArn"], name=name)["executionArn"]


def _status(arn: str) -> str:
    return boto3.client("stepfunctions").describe_execution(executionArn=arn)["status"]


def _start_waiting_for_token() -> tuple[str, str]:
    """Return the ARN of an execution that waits for a task token and catches all errors, and the token."""
    url = boto3.client("sqs").create_queue(QueueName="tokens")["QueueUrl"]
    arn = _start(
        {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": url, "MessageBody": {"token.$": "$$.Task.Token"}},
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Only"}],
            "End": True,
        }
    )
    messages = run_until(lambda: boto3.client("sqs").receive_message(QueueUrl=url).get("Messages"))
    assert messages is not None
    return arn, json.loads(messages[0]["Body"])["token"]


def test_repaired_moto_stops_an_execution_that_waits_for_a_token() -> None:
    with repairs.executions_that_can_be_stopped():
        arn, _ = _start_waiting_for_token()
        boto3.client("stepfunctions").stop_execution(executionArn=arn)
        assert _status(arn) == "ABORTED"
        assert repairs.join_execution_threads(5.0) == []
        assert _status(arn) == "ABORTED"


def test_plain_moto_does_not_stop_an_execution_that_waits_for_a_token() -> None:
    arn, token = _start_waiting_for_token()
    boto3.client("stepfunctions").stop_execution(executionArn=arn)
    time.sleep(0.3)
    assert _status(arn) == "RUNNING", "moto no longer needs the repair: remove it"
    boto3.client("stepfunctions").send_task_success(taskToken=token, output="{}")
    assert repairs.join_execution_threads(5.0) == []


def test_stopping_an_ended_execution_changes_nothing() -> None:
    with repairs.repaired_moto():
        arn = _start({"Type": "Pass", "End": True})
        run_until(lambda: _status(arn) == "SUCCEEDED")
        boto3.client("stepfunctions").stop_execution(executionArn=arn)
        assert _status(arn) == "SUCCEEDED"


@pytest.fixture
def _slow_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the threads of executions."""
    original: Callable[..., None] = ExecutionWorker._execution_logic

    def start_slowly(self: ExecutionWorker) -> None:
        time.sleep(0.2)
        original(self)

    monkeypatch.setattr(ExecutionWorker, "_execution_logic", start_slowly)


@pytest.mark.usefixtures("_slow_starts")
def test_repaired_moto_stops_an_execution_that_has_just_started() -> None:
    with repairs.repaired_moto():
        arn = _start({"Type": "Wait", "Seconds": 60, "End": True})
        boto3.client("stepfunctions").stop_execution(executionArn=arn)
        assert _status(arn) == "ABORTED"


@pytest.mark.usefixtures("_slow_starts")
def test_plain_moto_fails_to_stop_an_execution_that_has_just_started() -> None:
    arn = _start({"Type": "Pass", "End": True})
    with pytest.raises(AttributeError):
        boto3.client("stepfunctions").stop_execution(executionArn=arn)
    run_until(lambda: _status(arn) == "SUCCEEDED")


def test_repaired_moto_reuses_clients() -> None:
    with repairs.executions_that_keep_their_clients():
        clients: list[Any] = []
        threads = [
            threading.Thread(target=lambda: clients.append(boto_client_for("us-east-1", "dynamodb")))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(clients) == 8
        assert len(set(map(id, clients))) == 1
    assert boto_client_for("us-east-1", "dynamodb") is not boto_client_for("us-east-1", "dynamodb")


def _seconds_of_one_retry(interval: int) -> float:
    started = time.monotonic()
    arn = _start(
        {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage",
            "Parameters": {
                "QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/none",
                "MessageBody": "m",
            },
            "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": interval, "MaxAttempts": 1}],
            "End": True,
        }
    )
    run_until(lambda: _status(arn) == "FAILED")
    return time.monotonic() - started


def test_repaired_moto_retries_without_delay() -> None:
    with repairs.executions_that_retry_at_once():
        assert _seconds_of_one_retry(8) < 8


def test_plain_moto_waits_before_a_retry() -> None:
    assert _seconds_of_one_retry(1) > 1


def _client_of_table() -> Any:
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def _updated_attributes_of_a_new_item() -> set[str]:
    answer = _client_of_table().update_item(
        TableName="t",
        Key={"pk": {"S": "a"}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="UPDATED_NEW",
    )
    return set(answer["Attributes"])


def test_repaired_moto_returns_no_key_among_the_updated_attributes() -> None:
    with repairs.repaired_moto():
        assert _updated_attributes_of_a_new_item() == {"n"}


def test_plain_moto_returns_the_key_among_the_updated_attributes() -> None:
    assert _updated_attributes_of_a_new_item() == {"n", "pk"}, "moto no longer needs the repair: remove it"


def _last_key_of_a_full_page() -> Any:
    client = _client_of_table()
    client.put_item(TableName="t", Item={"pk": {"S": "a"}})
    answer = client.query(
        TableName="t",
        KeyConditionExpression="pk = :a",
        ExpressionAttributeValues={":a": {"S": "a"}},
        Limit=1,
    )
    return answer.get("LastEvaluatedKey")


def test_repaired_moto_says_where_a_full_page_ends() -> None:
    with repairs.repaired_moto():
        assert _last_key_of_a_full_page() == {"pk": {"S": "a"}}


def test_plain_moto_does_not_say_where_the_last_page_ends() -> None:
    assert _last_key_of_a_full_page() is None, "moto no longer needs the repair: remove it"


def _item_after_an_update_that_fails() -> dict[str, Any]:
    client = _client_of_table()
    client.put_item(TableName="t", Item={"pk": {"S": "a"}, "x": {"S": "x" * 400_000}})
    with pytest.raises(ClientError, match="Item size to update has exceeded"):
        client.update_item(
            TableName="t",
            Key={"pk": {"S": "a"}},
            UpdateExpression="SET a = :short, b = :long",
            ExpressionAttributeValues={":short": {"S": "s"}, ":long": {"S": "l" * 10_000}},
        )
    item: dict[str, Any] = client.get_item(TableName="t", Key={"pk": {"S": "a"}})["Item"]
    return item


def test_repaired_moto_undoes_an_update_that_fails() -> None:
    with repairs.repaired_moto():
        assert set(_item_after_an_update_that_fails()) == {"pk", "x"}


def test_plain_moto_applies_an_update_that_fails_in_part() -> None:
    assert "a" in _item_after_an_update_that_fails(), "moto no longer needs the repair: remove it"
