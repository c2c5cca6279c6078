"""Limits of concurrent Lambda invocations, and how each kind of caller meets them."""

import json
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from support.aws_rules.lambda_concurrency import LambdaConcurrency, TooManyRequests
from support.fakes.lambda_server import Functions, lambda_server
from support.moto.cloud import Cloud
from support.moto.repairs import join_execution_threads, repaired_moto
from support.waits import run_until

ROLE = "arn:aws:iam::123456789012:role/r"
MOTO: Any = {
    "core": {"passthrough": {"services": ["lambda"], "urls": ["http://127.0.0.1.*"]}},
    "stepfunctions": {"execute_state_machine": True},
}


def test_functions_share_the_limit_of_the_account() -> None:
    concurrency = LambdaConcurrency(limit=10, reserved={"reserved": 3})
    with concurrency.occupied("a", 6):
        with concurrency.invocation("b"), pytest.raises(TooManyRequests) as caught:
            concurrency.invocation("b").__enter__()
        assert caught.value.reason == "ConcurrentInvocationLimitExceeded"
        with concurrency.invocation("b"):
            pass
        with concurrency.occupied("reserved", 2), concurrency.invocation("reserved"):
            with pytest.raises(TooManyRequests) as caught:
                concurrency.invocation("reserved").__enter__()
            assert caught.value.reason == "ReservedFunctionConcurrentInvocationLimitExceeded"
    assert concurrency.refused == 2


def test_random_throttles_are_reproducible_by_seed() -> None:
    def refused(seed: int) -> list[int]:
        concurrency, numbers = LambdaConcurrency(), []
        with concurrency.often_exhausted(0.5, seed):
            for number in range(20):
                try:
                    with concurrency.invocation("f"):
                        pass
                except TooManyRequests:
                    numbers.append(number)
        return numbers

    assert refused(1) == refused(1) != refused(2)


@pytest.fixture
def calls() -> list[Any]:
    return []


@pytest.fixture
def functions(calls: list[Any]) -> Iterator[Functions]:
    deployed = Functions({"f": lambda event, _: calls.append(event)}, {}, {}, LambdaConcurrency(limit=1))
    with (
        mock_aws(config=MOTO),
        repaired_moto(),
        lambda_server(deployed) as server,
        patch.dict(os.environ, {"AWS_ENDPOINT_URL_LAMBDA": server.url}),
    ):
        yield deployed


def test_an_invocation_beyond_the_limit_is_refused(functions: Functions, calls: list[Any]) -> None:
    client = boto3.client("lambda", config=Config(retries={"total_max_attempts": 1}))
    with functions.concurrency.occupied("other"):
        with pytest.raises(client.exceptions.TooManyRequestsException) as caught:
            client.invoke(FunctionName="f", Payload=b"{}")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert calls == []
    client.invoke(FunctionName="f", Payload=b"{}")
    assert len(calls) == 1
    client.close()


def test_an_asynchronous_invocation_waits_for_its_turn(functions: Functions, calls: list[Any]) -> None:
    client = boto3.client("lambda")
    with functions.concurrency.occupied("other"):
        assert client.invoke(FunctionName="f", InvocationType="Event", Payload=b"{}")["StatusCode"] == 202
        run_until(lambda: functions.concurrency.refused > 2)
        assert calls == []
    run_until(lambda: calls)
    client.close()


def test_a_state_machine_sees_the_error_of_lambda(functions: Functions, calls: list[Any]) -> None:
    client = boto3.client("stepfunctions")
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "f", "Payload": {}},
        "Retry": [
            {
                "ErrorEquals": ["Lambda.TooManyRequestsException"],
                "IntervalSeconds": 1,
                "BackoffRate": 1,
                "MaxAttempts": 100,
            }
        ],
        "End": True,
    }
    machine = client.create_state_machine(
        name="m", definition=json.dumps({"StartAt": "Only", "States": {"Only": task}}), roleArn=ROLE
    )["stateMachineArn"]
    with functions.concurrency.occupied("other"):
        arn = client.start_execution(stateMachineArn=machine)["executionArn"]
        run_until(lambda: functions.concurrency.refused > 1)
    run_until(lambda: client.describe_execution(executionArn=arn)["status"] == "SUCCEEDED")
    assert len(calls) == 1
    assert join_execution_threads(5.0) == []


def test_the_callers_of_a_stack_meet_the_limit(cloud: Cloud) -> None:
    url = cloud.environment["SHARDMILL_FIRE_QUEUE"]
    cloud.clients.sqs.send_message(QueueUrl=url, MessageBody="{}")
    with cloud.functions.concurrency.occupied("runner", 1000):
        assert cloud.http("GET", "/v1/jobs").status == 500
        with pytest.raises(TooManyRequests):
            cloud.tick()
        assert cloud.serve_fire_queue() == 0
    assert cloud.http("GET", "/v1/jobs").status == 200
    attributes = cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "1"
