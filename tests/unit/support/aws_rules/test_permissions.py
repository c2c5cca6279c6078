"""The IAM rule of the tests: actions, resources and wildcards as in the policies of template.yaml."""

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from support.aws_rules.call import running_as
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
def test_actions_and_resources(function: str, action: str, arn: str, allowed: bool) -> None:
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
