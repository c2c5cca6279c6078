"""Finding the queues of worker groups: SQS lists at most 1,000 in one answer."""

import boto3
from botocore.stub import Stubber

from shardmill.aws.queues import Queues

BASE = "https://sqs.us-east-1.amazonaws.com/123456789012"


def queue(number: int) -> str:
    return f"{BASE}/mill-abc-{number:08x}-normal-1"


def test_more_than_a_thousand_queues_are_listed_page_by_page() -> None:
    client = boto3.client("sqs", region_name="us-east-1")
    every = [queue(number) for number in range(1_500)]
    asked = {"QueueNamePrefix": "mill-abc-", "MaxResults": 1000}  # without it SQS lists 1,000 and no token
    with Stubber(client) as stub:
        stub.add_response("list_queues", {"QueueUrls": every[:1000], "NextToken": "next"}, asked)
        others = [f"{BASE}/mill-abc-dead", f"{BASE}/mill-abc-lambda-normal"]
        stub.add_response("list_queues", {"QueueUrls": every[1000:] + others}, {**asked, "NextToken": "next"})
        assert list(Queues(client, "").of_groups("mill-abc")) == every
