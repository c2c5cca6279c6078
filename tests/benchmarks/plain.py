"""The reference for throughput: a plain boto3 loop with the calls that a worker must make."""

from __future__ import annotations

import time
import uuid
from typing import Any

import boto3


def tasks_per_second(endpoint: str, tasks: int) -> float:
    """Send, receive, lease, report and delete tasks, ten at a time, from one thread."""
    options: Any = {
        "endpoint_url": endpoint,
        "region_name": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    sqs, dynamodb = boto3.client("sqs", **options), boto3.client("dynamodb", **options)
    name = f"plain-{uuid.uuid4().hex[:8]}"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    started = time.perf_counter()
    for at in range(0, tasks, 10):
        entries: Any = [{"Id": str(n), "MessageBody": str(at + n)} for n in range(10)]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    done = 0
    while done < tasks:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        ranks = [int(message["Body"]) for message in messages]
        for value in ("R1|worker", "S1|worker"):
            dynamodb.update_item(
                TableName=name,
                Key={"pk": {"S": str(ranks[0] // 64)}},
                UpdateExpression="SET " + ", ".join(f"#{rank} = :v" for rank in ranks),
                ExpressionAttributeNames={f"#{rank}": str(rank % 64) for rank in ranks},
                ExpressionAttributeValues={":v": {"S": value}},
                ReturnValues="ALL_NEW",
            )
        handles: Any = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
        sqs.delete_message_batch(QueueUrl=queue, Entries=handles)
        done += len(messages)
    took = time.perf_counter() - started
    sqs.delete_queue(QueueUrl=queue)
    dynamodb.delete_table(TableName=name)
    return tasks / took
