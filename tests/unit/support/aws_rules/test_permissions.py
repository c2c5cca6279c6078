"""The IAM rule of the tests: actions, resources and wildcards as in the policies of template.yaml."""

from threading import Thread

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from support.aws_rules.call import running_as, running_function
from support.aws_rules.grants import refused, used
from support.aws_rules.permissions import Permissions

QUEUE = "arn:aws:sqs:us-east-1:123456789012:mill-*"
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/mill"
RULES = Permissions(
    {
        "send": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": QUEUE}],
        "write": [{"Effect": "Allow", "Action": ["dynamodb:PutItem"], "Resource": [TABLE]}],
    },
    "123456789012",
    "us-east-1",
)


@pytest.mark.parametrize(
    ("function", "action", "arn", "allowed"),
    [
        ("send", "sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:mill-a", True),
        ("send", "sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:other-a", False),
        ("send", "sqs:DeleteMessage", "arn:aws:sqs:us-east-1:123456789012:mill-a", False),
        ("write", "dynamodb:PutItem", TABLE, True),
        ("write", "dynamodb:PutItem", f"{TABLE}/index/list", False),
        ("none", "dynamodb:PutItem", TABLE, False),
    ],
)
def test_actions_and_resources_are_matched_with_wildcards(
    function: str, action: str, arn: str, allowed: bool
) -> None:
    assert RULES.allows(function, action, arn) is allowed


@mock_aws
def test_a_call_is_refused_only_inside_a_function() -> None:
    client = boto3.client("sqs", region_name="us-east-1")
    with RULES.enforced():
        url = client.create_queue(QueueName="mill-a")["QueueUrl"]
        with running_as("send"):
            client.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "x"}])
            with pytest.raises(ClientError, match=r"send is not authorized .* sqs:ReceiveMessage"):
                client.receive_message(QueueUrl=url)


@mock_aws
def test_threads_of_a_function_have_its_role_and_what_aws_starts_has_not() -> None:
    client = boto3.client("sqs", region_name="us-east-1")
    inside: list[str | None] = []
    client.meta.events.register("before-send.sqs", lambda **_: inside.append(running_function.get()))
    codes: list[str] = []

    def receive(url: str) -> None:
        try:
            client.receive_message(QueueUrl=url)
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])

    with RULES.enforced():
        url = client.create_queue(QueueName="mill-a")["QueueUrl"]
        with running_as("send"):
            client.send_message(QueueUrl=url, MessageBody="x")
            thread = Thread(target=receive, args=(url,))
            thread.start()
            thread.join()
        assert running_function.get() is None
    assert codes == ["AccessDeniedException"]
    assert inside == [None, None]


def test_a_call_of_a_service_without_a_rule_needs_its_action() -> None:
    with RULES.enforced(), running_as("send"):
        client = boto3.client("cloudwatch", region_name="us-east-1")
        with pytest.raises(ClientError, match="cloudwatch:ListMetrics"):
            client.list_metrics()


def test_a_mapping_polls_with_the_role_of_its_function() -> None:
    queue = "https://sqs.us-east-1.amazonaws.com/123456789012/mill-a"
    actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    rules = Permissions({"poll": [{"Action": actions, "Resource": QUEUE}]}, "123456789012", "us-east-1")
    rules.check_mapping("poll", queue)
    assert {("poll", action, 0) for action in actions} <= used
    with pytest.raises(AssertionError):
        RULES.check_mapping("send", queue)
    assert ("send", "sqs:ReceiveMessage", "arn:aws:sqs:us-east-1:123456789012:mill-a") in refused
