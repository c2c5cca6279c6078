"""Limits of queues: repaired moto has them, and plain moto does not."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from support.moto import queues
from support.moto.repairs import repaired_moto
from support.scenarios.manual_clock import ManualClock, queue_clock

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

DAY = 24 * 3600 * 1000
FOURTEEN_DAYS = 14 * DAY


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    manual = ManualClock()
    with mock_aws(), queue_clock(manual):
        yield manual


@pytest.fixture
def sqs() -> "SQSClient":
    return boto3.client("sqs")


@pytest.fixture
def queue(clock: ManualClock, sqs: "SQSClient") -> str:
    attributes: Any = {"VisibilityTimeout": "30", "MessageRetentionPeriod": str(14 * 24 * 3600)}
    return sqs.create_queue(QueueName="q", Attributes=attributes)["QueueUrl"]


def receive(sqs: "SQSClient", queue: str, **options: Any) -> list[Any]:
    return sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options).get("Messages", [])


def counts(sqs: "SQSClient", queue: str) -> int:
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return sum(int(value) for name, value in attributes.items() if name.startswith("ApproximateNumber"))


@pytest.mark.parametrize("state", ["visible", "delayed", "in flight", "hidden again"])
def test_a_message_is_deleted_at_the_end_of_its_retention(
    sqs: "SQSClient", queue: str, clock: ManualClock, state: str
) -> None:
    with repaired_moto():
        sqs.send_message(QueueUrl=queue, MessageBody="old")
        clock.ms += FOURTEEN_DAYS - 10_000
        sqs.send_message(QueueUrl=queue, MessageBody="new", DelaySeconds=900 * (state == "delayed"))
        receipt = None
        if state in ("in flight", "hidden again"):
            receipt = receive(sqs, queue)[0]["ReceiptHandle"]
        if receipt and state == "hidden again":
            sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=receipt, VisibilityTimeout=3600)
        assert counts(sqs, queue) == 2
        clock.ms += 10_000
        assert counts(sqs, queue) == 2
        clock.ms += 1
        assert counts(sqs, queue) == 1
        clock.ms += DAY
        assert [message["Body"] for message in receive(sqs, queue)] == ["new"]
        if receipt:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=receipt)


def test_plain_moto_keeps_an_expired_message_in_front(
    sqs: "SQSClient", queue: str, clock: ManualClock
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    clock.ms += FOURTEEN_DAYS + 1
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    assert receive(sqs, queue) == [], "moto no longer needs the repair: remove it"


@pytest.mark.parametrize("repaired", [True, False])
def test_an_old_message_can_be_hidden_again(
    sqs: "SQSClient", queue: str, clock: ManualClock, repaired: bool
) -> None:
    expected: AbstractContextManager[Any] = nullcontext() if repaired else pytest.raises(ClientError)
    with repaired_moto() if repaired else nullcontext():
        sqs.send_message(QueueUrl=queue, MessageBody="m")
        clock.ms += DAY
        [message] = receive(sqs, queue)
        with expected:
            sqs.change_message_visibility(
                QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=60
            )


def test_the_number_of_messages_in_flight_is_limited(
    sqs: "SQSClient", queue: str, clock: ManualClock
) -> None:
    with repaired_moto(), patch.object(queues, "MAX_IN_FLIGHT", 3):
        for number in range(5):
            sqs.send_message(QueueUrl=queue, MessageBody=str(number))
        held = receive(sqs, queue)
        assert len(held) == 3
        with pytest.raises(sqs.exceptions.OverLimit):
            receive(sqs, queue)
        assert receive(sqs, queue, WaitTimeSeconds=1) == []
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=held[0]["ReceiptHandle"])
        assert len(receive(sqs, queue)) == 1
        clock.ms += 31_000
        assert len(receive(sqs, queue)) == 3
