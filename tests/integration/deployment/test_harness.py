"""The test support, checked on the real template with small functions and state machines."""

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
    response = json.dumps({"Status": "SUCCESS", "PhysicalResourceId": "setup"}).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], data=response, method="PUT"))
""",
}


_ENVIRONMENT = {
    f"SHARDMILL_{name}"
    for name in (
        "ADMIN_TOKEN_HASH",
        "ALLOW_HOSTS",
        "APPLICATION_LIMITS",
        "BUCKET",
        "BUS",
        "DEAD_QUEUE",
        "EMPTY_BUCKET",
        "EVENT_DEFINITIONS",
        "FIRE_QUEUE",
        "IAM_SCOPES",
        "JOB_MACHINE",
        "LAMBDA_QUEUES",
        "MACHINE_ALIAS",
        "NOTIFY_DEAD_QUEUE",
        "NOTIFY_LOOPBACK",
        "NOTIFY_QUEUE",
        "OIDC_AUDIENCE",
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SCOPES",
        "OIDC_ISSUER",
        "OIDC_SCOPES_CLAIM",
        "OIDC_USER_CLAIM",
        "QUEUE_PREFIX",
        "SECRETS_BY_APPLICATION",
        "SECRETS_KEY",
        "SECRET_PREFIX",
        "STACK",
        "STEP_MACHINE",
        "SUBMIT_DEAD_QUEUE",
        "TABLE",
        "TOKEN_KEY",
        "TOKEN_RATE",
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
def small_cloud(project: Path) -> Iterator[Cloud]:
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


def test_the_table_matches_the_template(small_cloud: Cloud) -> None:
    table = small_cloud.clients.dynamodb.describe_table(TableName=small_cloud.table)["Table"]
    assert {key["AttributeName"] for key in table["KeySchema"]} == {"pk", "sk"}
    indexes = {index["IndexName"]: index["Projection"] for index in table["GlobalSecondaryIndexes"]}
    assert set(indexes) == {"list", "name", "state", "due"}
    assert indexes["due"]["ProjectionType"] == "KEYS_ONLY"
    ttl = small_cloud.clients.dynamodb.describe_time_to_live(TableName=small_cloud.table)
    assert ttl["TimeToLiveDescription"]["AttributeName"] == "ttl"


def test_the_queues_match_the_template(small_cloud: Cloud) -> None:
    url = small_cloud.environment["SHARDMILL_LAMBDA_QUEUES"]
    assert url.rsplit("/", 1)[-1] == f"{small_cloud.environment['SHARDMILL_QUEUE_PREFIX']}-lambda-normal"
    attributes = small_cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    assert attributes["Attributes"]["VisibilityTimeout"] == "5400"


def test_the_environment_is_set_and_removed_with_the_cloud(project: Path) -> None:
    with moto_cloud(project) as cloud:
        assert {name for name in os.environ if name.startswith("SHARDMILL_")} == _ENVIRONMENT
        assert os.environ["SHARDMILL_STACK"] == "shardmill-test"
        assert os.environ["SHARDMILL_JOB_MACHINE"] == cloud.stack.machines["job"]
        assert os.environ["SHARDMILL_STEP_MACHINE"] == cloud.stack.machines["step"]
    assert not [name for name in os.environ if name.startswith("SHARDMILL_")]
    assert "AWS_ENDPOINT_URL_LAMBDA" not in os.environ


def test_requests_go_through_the_authorizer_and_the_routes(small_cloud: Cloud) -> None:
    response = small_cloud.http("PUT", "/v1/definitions/a%20b?x=1&x=2", {"k": "v"})
    assert response.status == 201
    assert response.headers["content-type"] == "application/json"
    assert response.json == {
        "route": "$default",
        "path": "/v1/definitions/a b",
        "actor": "admin",
        "query": {"x": "1,2"},
        "body": '{"k": "v"}',
        "base64": False,
        "name": "shardmill-test-api",
    }
    assert small_cloud.http("GET", "/v1/jobs", token="wrong").json["actor"] == ""
    assert small_cloud.http("GET", "/v1/health", token=None).json["actor"] is None
    assert small_cloud.http("POST", "/v1/work:lease", {}).json == {"route": "POST /v1/work:lease"}
    assert small_cloud.http("POST", "/v1/jobs", b"\xff\xfe").json["base64"] is True
    assert small_cloud.http("GET", "/v1/boom").status == 500


def test_an_exception_in_a_handler_becomes_a_function_error(small_cloud: Cloud) -> None:
    with pytest.raises(FunctionError, match="RuntimeError: no such luck"):
        small_cloud.invoke("orchestrate", {"action": "fail"})


def test_an_execution_calls_the_functions_and_publishes_its_event(small_cloud: Cloud) -> None:
    arn = _start(small_cloud, "step", "one")
    token = small_cloud.run_until(lambda: _token(small_cloud, "one"))
    small_cloud.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
    small_cloud.wait_for_executions()
    assert [e["status"] for e in small_cloud.executions("step")] == ["SUCCEEDED"]
    assert small_cloud.transitions(arn) == 6
    [event] = small_cloud.published()
    assert event["detail-type"] == "Job ended"
    assert small_cloud.published() == []


def test_failed_executions_are_handled_once(small_cloud: Cloud) -> None:
    failed = _start(small_cloud, "job", "unlucky")
    aborted = _start(small_cloud, "step", "stopped")
    small_cloud.run_until(lambda: _token(small_cloud, "stopped"))
    small_cloud.clients.stepfunctions.stop_execution(executionArn=aborted)
    small_cloud.wait_for_executions()
    assert small_cloud.settle() == [failed, aborted]
    assert small_cloud.settle() == []
    key = {"pk": {"S": "settled"}, "sk": {"S": "unlucky"}}
    item = small_cloud.clients.dynamodb.get_item(TableName=small_cloud.table, Key=key)["Item"]
    assert item["status"] == {"S": "FAILED"}


def test_the_tick_uses_the_given_time(small_cloud: Cloud) -> None:
    assert small_cloud.tick(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2030-01-02T03:04:05Z"


def test_lambda_queues_keep_failed_messages(small_cloud: Cloud) -> None:
    url = small_cloud.environment["SHARDMILL_LAMBDA_QUEUES"]
    for body in ("good", "bad", "good"):
        small_cloud.clients.sqs.send_message(QueueUrl=url, MessageBody=body)
    assert small_cloud.serve_lambda_queue() == 2
    left = small_cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert left["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_a_timed_out_wait_describes_the_executions(small_cloud: Cloud) -> None:
    _start(small_cloud, "job", "unlucky")
    small_cloud.wait_for_executions()
    with pytest.raises(NeverHappened, match=r"unlucky FAILED RuntimeError.*no such luck"):
        small_cloud.run_until(lambda: False, timeout=0.05)


def test_a_cloud_leaves_no_execution_behind(project: Path) -> None:
    before = threading.active_count()
    with moto_cloud(project) as cloud:
        _start(cloud, "step", "waits-for-ever")
        cloud.run_until(lambda: _token(cloud, "waits-for-ever"))
    run_until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.04, 0.08, 0.12])
def test_a_cloud_can_be_stopped_at_any_time(project: Path, seconds: float) -> None:
    with moto_cloud(project) as cloud:
        for name in ("a", "b"):
            _start(cloud, "step", name)
        time.sleep(seconds)


def test_many_concurrent_executions_succeed(small_cloud: Cloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: _start(small_cloud, "step", f"many-{n}"), range(10)))
    for n in range(10):
        token = small_cloud.run_until(lambda n=n: _token(small_cloud, f"many-{n}"))  # type: ignore[misc]
        small_cloud.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
    small_cloud.wait_for_executions()
    assert {e["status"] for e in small_cloud.executions()} == {"SUCCEEDED"}


def test_calls_of_the_test_clients_are_not_counted(small_cloud: Cloud) -> None:
    with Faults() as faults:
        _start(small_cloud, "step", "counted")
        token = small_cloud.run_until(lambda: _token(small_cloud, "counted"))
        small_cloud.clients.stepfunctions.send_task_success(taskToken=str(token), output="{}")
        small_cloud.wait_for_executions()
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
def test_an_execution_succeeds_if_any_single_call_fails_once(
    project: Path, how: How, name: str | None, count: int
) -> None:
    """The test functions are idempotent, so a retry always succeeds."""
    failed = 0
    for run in everywhere_once(ways=[how], only=lambda call: name in (None, call.name)):
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


def test_failed_calls_of_state_machines_have_the_error_names_of_aws(
    small_cloud: Cloud, faults: Faults
) -> None:
    faults.fail("lambda", "Invoke", how="before", times=3)
    arn = _start(small_cloud, "step", "x")
    small_cloud.wait_for_executions()
    described = small_cloud.clients.stepfunctions.describe_execution(executionArn=arn)
    assert described["error"] == "Lambda.SdkClientException"


_TOO_MUCH_STATE = {
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
    """Return the end of an execution that catches States.ALL and whose function returns more than 256 KB."""
    handlers = load_handlers(project) | {"orchestrate": lambda event, context: "x" * 262_144}
    with moto_cloud(project, handlers) as cloud:
        stepfunctions = cloud.clients.stepfunctions
        definition = json.dumps(_TOO_MUCH_STATE)
        machine = stepfunctions.create_state_machine(
            name="m", definition=definition, roleArn="arn:aws:iam::123456789012:role/r"
        )
        arn = stepfunctions.start_execution(stateMachineArn=machine["stateMachineArn"], name="n")[
            "executionArn"
        ]
        cloud.run_until(lambda: stepfunctions.describe_execution(executionArn=arn)["status"] != "RUNNING")
        end = stepfunctions.describe_execution(executionArn=arn)
        return f"{end['status']} {end.get('error')}"


def test_too_much_state_fails_an_execution_despite_its_catch_clause(project: Path) -> None:
    assert _end_of_too_much_state(project) == "FAILED States.DataLimitExceeded"


def test_moto_alone_still_catches_too_much_state(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "errors_that_nothing_catches", nullcontext)
    assert _end_of_too_much_state(project) == "SUCCEEDED None", "drop the repair"


def test_queues_can_be_shuffled(small_cloud: Cloud) -> None:
    url = small_cloud.environment["SHARDMILL_DEAD_QUEUE"]
    for n in range(20):
        small_cloud.clients.sqs.send_message(QueueUrl=url, MessageBody=str(n))
    shuffle_queues(Random(1))
    bodies = []
    while messages := small_cloud.clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        bodies += [int(message["Body"]) for message in messages]
    assert bodies != sorted(bodies) == list(range(20))


def test_the_admin_token_is_the_template_parameter(small_cloud: Cloud) -> None:
    assert small_cloud.token == TOKEN
    assert small_cloud.http("GET", "/v1/jobs").json["actor"] == "admin"
