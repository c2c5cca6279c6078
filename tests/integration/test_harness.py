"""The test support itself, on the real template with small functions and state machines."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from botocore.exceptions import ClientError

from support.aws_rules.faults import Faults, How, everywhere_once
from support.fakes.lambda_server import FunctionError, load_handlers
from support.moto import repairs
from support.moto.cloud import Cloud
from support.moto.moto_cloud import PROJECT, TOKEN, moto_cloud, shuffle_queues
from support.waits import NeverHappened, run_until

_FUNCTIONS = {
    "api": """
import json
def handler(event, context):
    authorizer = event["requestContext"].get("authorizer", {}).get("lambda", {})
    if event["rawPath"] == "/v1/boom":
        raise ValueError("boom")
    seen = {"route": event["routeKey"], "path": event["rawPath"], "actor": authorizer.get("actor"),
            "query": event.get("queryStringParameters"), "body": event.get("body"),
            "base64": event["isBase64Encoded"], "name": context.function_name}
    return {"statusCode": 201, "headers": {"Content-Type": "application/json"}, "body": json.dumps(seen)}
""",
    "lease": "def handler(event, context):\n    return {'route': event['routeKey']}\n",
    "authorizer": """
import hashlib, os
def handler(event, context):
    token = event["headers"].get("authorization", "").removeprefix("Bearer ")
    good = hashlib.sha256(token.encode()).hexdigest() == os.environ["SHARDMILL_ADMIN_TOKEN_HASH"]
    return {"isAuthorized": True, "context": {"actor": "admin" if good else ""}}
""",
    "orchestrate": """
import boto3, os
dynamodb, events = boto3.client("dynamodb"), boto3.client("events")
def handler(event, context):
    if event["action"] == "fail":
        raise RuntimeError("no such luck")
    dynamodb.put_item(
        TableName=os.environ["SHARDMILL_TABLE"],
        Item={"pk": {"S": event["jobId"]}, "sk": {"S": event["action"]}, "open": {"SS": ["0"]}},
    )
    if event["action"] == "close":
        events.put_events(Entries=[{"Source": "shardmill", "DetailType": "Job ended", "Detail": "{}"}])
    return {"items": [{"n": 0}, {"n": 1}]}
""",
    "tick": "def handler(event, context):\n    return event['time']\n",
    "execution_failed": """
import boto3, os
def handler(event, context):
    boto3.client("dynamodb").put_item(
        TableName=os.environ["SHARDMILL_TABLE"],
        Item={"pk": {"S": "settled"}, "sk": {"S": event["detail"]["name"]},
              "status": {"S": event["detail"]["status"]}},
    )
""",
    "runner": """
def handler(event, context):
    bad = [r["messageId"] for r in event["Records"] if r["body"] == "bad"]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in bad]}
""",
    "setup": """
import json, urllib.request
def handler(event, context):
    answer = json.dumps({"Status": "SUCCESS", "PhysicalResourceId": "setup"}).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], data=answer, method="PUT"))
""",
}


_ENVIRONMENT = {
    f"SHARDMILL_{name}"
    for name in (
        "ALLOW_HOSTS",
        "STACK",
        "TABLE",
        "BUCKET",
        "JOB_MACHINE",
        "STEP_MACHINE",
        "BUS",
        "LAMBDA_QUEUES",
        "DEAD_QUEUE",
        "FIRE_QUEUE",
        "NOTIFY_QUEUE",
        "NOTIFY_LOOPBACK",
        "ADMIN_TOKEN_HASH",
    )
}


def _call(action: str, then: str | None) -> dict[str, object]:
    parameters = {
        "FunctionName": "${OrchestrateFunctionArn}",
        "Payload": {"action": action, "jobId.$": "$.jobId"},
    }
    state: dict[str, object] = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": parameters,
        "ResultPath": "$.result",
        "Retry": [{"ErrorEquals": ["States.TaskFailed"], "MaxAttempts": 2}],
    }
    return state | ({"Next": then} if then else {"End": True})


_JOB = {"StartAt": "Plan", "States": {"Plan": _call("fail", None)}}
_STEP = {
    "StartAt": "Open",
    "States": {
        "Open": _call("open", "Each"),
        "Each": {
            "Type": "Map",
            "ItemsPath": "$.result.Payload.items",
            "ItemSelector": {"jobId.$": "$.jobId"},
            "ResultPath": None,
            "ItemProcessor": {
                "ProcessorConfig": {"Mode": "INLINE"},
                "StartAt": "Enqueue",
                "States": {"Enqueue": _call("enqueue", None)},
            },
            "Next": "Await",
        },
        "Await": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
            "Parameters": {
                "TableName": "${TableName}",
                "Key": {"pk": {"S.$": "$.jobId"}, "sk": {"S": "open"}},
                "UpdateExpression": "SET #token = :token",
                "ConditionExpression": "attribute_exists(#open)",
                "ExpressionAttributeNames": {"#token": "token", "#open": "open"},
                "ExpressionAttributeValues": {":token": {"S.$": "$$.Task.Token"}},
            },
            "ResultPath": None,
            "Retry": [
                {"ErrorEquals": ["DynamoDb.ConditionalCheckFailedException"], "MaxAttempts": 0},
                {"ErrorEquals": ["States.TaskFailed"], "MaxAttempts": 2},
            ],
            "Catch": [
                {
                    "ErrorEquals": ["DynamoDb.ConditionalCheckFailedException"],
                    "ResultPath": None,
                    "Next": "Close",
                }
            ],
            "Next": "Close",
        },
        "Close": _call("close", None),
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    shutil.copy(PROJECT / "template.yaml", root)
    (root / "statemachine").mkdir()
    for name, document in (("job", _JOB), ("step", _STEP)):
        (root / "statemachine" / f"{name}.asl.json").write_text(json.dumps(document))
    for name, code in _FUNCTIONS.items():
        (root / "functions" / name).mkdir(parents=True)
        (root / "functions" / name / "app.py").write_text(code)
    return root


@pytest.fixture
def stand_in(project: Path) -> Iterator[Cloud]:
    with moto_cloud(project) as cloud:
        yield cloud


def _start(cloud: Cloud, machine: str, name: str) -> str:
    return cloud.clients.stepfunctions.start_execution(
        stateMachineArn=cloud.stack.machines[machine], name=name, input=json.dumps({"jobId": name})
    )["executionArn"]


def _token(cloud: Cloud, job: str) -> str | None:
    key = {"pk": {"S": job}, "sk": {"S": "open"}}
    item = cloud.clients.dynamodb.get_item(TableName=cloud.table, Key=key, ConsistentRead=True).get(
        "Item", {}
    )
    return item["token"]["S"] if "token" in item else None


def _answer_token(cloud: Cloud, job: str) -> None:
    token = _token(cloud, job)
    if token is not None:
        with suppress(ClientError):
            cloud.clients.stepfunctions.send_task_success(taskToken=token, output="{}")


def test_the_table_is_the_template_s(stand_in: Cloud) -> None:
    table = stand_in.clients.dynamodb.describe_table(TableName=stand_in.table)["Table"]
    assert {key["AttributeName"] for key in table["KeySchema"]} == {"pk", "sk"}
    indexes = {index["IndexName"]: index["Projection"] for index in table["GlobalSecondaryIndexes"]}
    assert set(indexes) == {"list", "name", "state", "due"}
    assert indexes["due"]["ProjectionType"] == "KEYS_ONLY"
    ttl = stand_in.clients.dynamodb.describe_time_to_live(TableName=stand_in.table)
    assert ttl["TimeToLiveDescription"]["AttributeName"] == "ttl"


def test_the_queues_are_the_template_s(stand_in: Cloud) -> None:
    urls = stand_in.environment["SHARDMILL_LAMBDA_QUEUES"].split(",")
    assert [url.rsplit("/", 1)[-1] for url in urls] == [
        f"shardmill-test-lambda-{lane}" for lane in ("high", "normal", "low")
    ]
    attributes = stand_in.clients.sqs.get_queue_attributes(QueueUrl=urls[0], AttributeNames=["All"])
    assert attributes["Attributes"]["VisibilityTimeout"] == "5400"


def test_the_environment_is_there_and_goes_again(project: Path) -> None:
    with moto_cloud(project) as cloud:
        assert {name for name in os.environ if name.startswith("SHARDMILL_")} == _ENVIRONMENT
        assert os.environ["SHARDMILL_STACK"] == "shardmill-test"
        assert os.environ["SHARDMILL_JOB_MACHINE"] == cloud.stack.machines["job"]
        assert os.environ["SHARDMILL_STEP_MACHINE"] == cloud.stack.machines["step"]
    assert not [name for name in os.environ if name.startswith("SHARDMILL_")]
    assert "AWS_ENDPOINT_URL_LAMBDA" not in os.environ


def test_requests_go_through_the_authorizer_and_the_routes(stand_in: Cloud) -> None:
    answer = stand_in.http("PUT", "/v1/definitions/a%20b?x=1&x=2", {"k": "v"})
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "route": "$default",
        "path": "/v1/definitions/a b",
        "actor": "admin",
        "query": {"x": "1,2"},
        "body": '{"k": "v"}',
        "base64": False,
        "name": "shardmill-test-api",
    }
    assert stand_in.http("GET", "/v1/jobs", token="wrong").json["actor"] == ""
    assert stand_in.http("GET", "/v1/health", token=None).json["actor"] is None
    assert stand_in.http("POST", "/v1/work:lease", {}).json == {"route": "POST /v1/work:lease"}
    assert stand_in.http("POST", "/v1/jobs", b"\xff\xfe").json["base64"] is True
    assert stand_in.http("GET", "/v1/boom").status == 500


def test_a_raising_handler_is_a_function_error(stand_in: Cloud) -> None:
    with pytest.raises(FunctionError, match="RuntimeError: no such luck"):
        stand_in.invoke("orchestrate", {"action": "fail"})


def test_an_execution_runs_the_real_thing(stand_in: Cloud) -> None:
    arn = _start(stand_in, "step", "one")
    token = stand_in.run_until(lambda: _token(stand_in, "one"))
    stand_in.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
    stand_in.wait_for_executions()
    assert [e["status"] for e in stand_in.executions("step")] == ["SUCCEEDED"]
    assert stand_in.transitions(arn) == 6
    [event] = stand_in.published()
    assert event["detail-type"] == "Job ended"
    assert stand_in.published() == []


def test_failed_executions_are_handled_once(stand_in: Cloud) -> None:
    failed = _start(stand_in, "job", "unlucky")
    aborted = _start(stand_in, "step", "stopped")
    stand_in.run_until(lambda: _token(stand_in, "stopped"))
    stand_in.clients.stepfunctions.stop_execution(executionArn=aborted)
    stand_in.wait_for_executions()
    assert stand_in.settle() == [failed, aborted]
    assert stand_in.settle() == []
    key = {"pk": {"S": "settled"}, "sk": {"S": "unlucky"}}
    item = stand_in.clients.dynamodb.get_item(TableName=stand_in.table, Key=key)["Item"]
    assert item["status"] == {"S": "FAILED"}


def test_the_tick_has_the_time_it_is_given(stand_in: Cloud) -> None:
    assert stand_in.tick(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2030-01-02T03:04:05Z"


def test_lambda_queues_keep_failed_messages(stand_in: Cloud) -> None:
    url = stand_in.environment["SHARDMILL_LAMBDA_QUEUES"].split(",")[1]
    for body in ("good", "bad", "good"):
        stand_in.clients.sqs.send_message(QueueUrl=url, MessageBody=body)
    assert stand_in.serve_lambda_lanes() == 2
    left = stand_in.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert left["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_waiting_says_where_the_executions_stand(stand_in: Cloud) -> None:
    _start(stand_in, "job", "unlucky")
    stand_in.wait_for_executions()
    with pytest.raises(NeverHappened, match=r"unlucky FAILED RuntimeError.*no such luck"):
        stand_in.run_until(lambda: False, timeout=0.05)


def test_a_cloud_leaves_no_execution_behind(project: Path) -> None:
    before = threading.active_count()
    with moto_cloud(project) as cloud:
        _start(cloud, "step", "waits-for-ever")
        cloud.run_until(lambda: _token(cloud, "waits-for-ever"))
    run_until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.04, 0.08, 0.12])
def test_a_cloud_can_end_at_any_moment(project: Path, seconds: float) -> None:
    with moto_cloud(project) as cloud:
        for name in ("a", "b"):
            _start(cloud, "step", name)
        time.sleep(seconds)


def test_many_concurrent_executions(stand_in: Cloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: _start(stand_in, "step", f"many-{n}"), range(10)))
    for n in range(10):
        token = stand_in.run_until(lambda n=n: _token(stand_in, f"many-{n}"))  # type: ignore[misc]
        stand_in.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
    stand_in.wait_for_executions()
    assert {e["status"] for e in stand_in.executions()} == {"SUCCEEDED"}


def test_the_test_s_own_clients_are_not_counted(stand_in: Cloud) -> None:
    with Faults() as faults:
        _start(stand_in, "step", "counted")
        token = stand_in.run_until(lambda: _token(stand_in, "counted"))
        stand_in.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
        stand_in.wait_for_executions()
    assert faults.meter.calls == {
        "lambda.Invoke": 4,
        "dynamodb.PutItem": 4,
        "dynamodb.UpdateItem": 1,
        "events.PutEvents": 1,
    }


@pytest.mark.parametrize(
    ("how", "name", "count"),
    [("after", None, 10), ("before", "lambda.Invoke", 4), ("crash", "dynamodb.PutItem", 4)],
)
def test_any_single_call_may_fail(project: Path, how: How, name: str | None, count: int) -> None:
    """The stand-ins are repeatable, so whatever fails once, the execution succeeds."""
    failed = 0
    for run in everywhere_once(hows=[how], only=lambda call: name in (None, call.name)):
        with run, moto_cloud(project) as cloud:
            with run.armed():
                _start(cloud, "step", "x")
                while cloud.executions(status="RUNNING"):
                    _answer_token(cloud, "x")
                    time.sleep(0.01)
            assert [e["status"] for e in cloud.executions()] == ["SUCCEEDED"]
            assert run.hit or run.fault is None
            assert len(cloud.published()) in (1, 2)
        failed += run.hit
    assert failed == count


def test_calls_of_state_machines_fail_with_the_errors_of_aws(stand_in: Cloud, faults: Faults) -> None:
    faults.fail("lambda", "Invoke", how="before", times=3)
    arn = _start(stand_in, "step", "x")
    stand_in.wait_for_executions()
    described = stand_in.clients.stepfunctions.describe_execution(executionArn=arn)
    assert described["error"] == "Lambda.SdkClientException"


_TOO_MUCH = {
    "StartAt": "Read",
    "States": {
        "Read": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "shardmill-test-orchestrate"},
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}],
            "End": True,
        },
        "Caught": {"Type": "Pass", "End": True},
    },
}


def _end_of_too_much_state(project: Path) -> str:
    """How an execution ends whose function answers more than 256 KB, and which catches all it can."""
    handlers = load_handlers(project) | {"orchestrate": lambda event, context: "x" * 262_144}
    with moto_cloud(project, handlers) as cloud:
        stepfunctions = cloud.clients.stepfunctions
        definition = json.dumps(_TOO_MUCH)
        machine = stepfunctions.create_state_machine(
            name="m", definition=definition, roleArn="arn:aws:iam::123456789012:role/r"
        )
        arn = stepfunctions.start_execution(stateMachineArn=machine["stateMachineArn"], name="n")[
            "executionArn"
        ]
        cloud.run_until(lambda: stepfunctions.describe_execution(executionArn=arn)["status"] != "RUNNING")
        end = stepfunctions.describe_execution(executionArn=arn)
        return f"{end['status']} {end.get('error')}"


def test_too_much_state_fails_an_execution_despite_its_catchers(project: Path) -> None:
    assert _end_of_too_much_state(project) == "FAILED States.DataLimitExceeded"


def test_moto_alone_still_catches_too_much_state(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "errors_that_nothing_catches", nullcontext)
    assert _end_of_too_much_state(project) == "SUCCEEDED None", "drop the repair"


def test_queues_can_be_shuffled(stand_in: Cloud) -> None:
    url = stand_in.environment["SHARDMILL_DEAD_QUEUE"]
    for n in range(20):
        stand_in.clients.sqs.send_message(QueueUrl=url, MessageBody=str(n))
    shuffle_queues(Random(1))
    bodies = []
    while messages := stand_in.clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        bodies += [int(message["Body"]) for message in messages]
    assert bodies != sorted(bodies) == list(range(20))


def test_the_admin_token_is_the_template_s_parameter(stand_in: Cloud) -> None:
    assert stand_in.token == TOKEN
    assert stand_in.http("GET", "/v1/jobs").json["actor"] == "admin"
