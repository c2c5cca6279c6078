"""template.yaml: complete, least-privilege, and consistent with the lock file."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shardmill.engine.notify import MAX_ATTEMPTS
from shardmill.local.sam_template import load_emulated_template, load_template
from support.paths import PROJECT

TEMPLATE = load_template(PROJECT / "template.yaml")
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]
ACTIONS_WITHOUT_RESOURCES = {"sqs:ListQueues"}


def of_type(kind: str) -> dict[str, dict[str, Any]]:
    return {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == kind}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in RESOURCES.items():
        properties = resource.get("Properties", {})
        documents = [*properties.get("Policies", []), properties.get("PolicyDocument", {})]
        for document in documents:
            for statement in document.get("Statement", []):
                if statement["Effect"] == "Allow":
                    yield name, statement


def test_every_function_of_the_repository_is_deployed() -> None:
    folders = {f"functions/{folder.parent.name}/" for folder in PROJECT.glob("functions/*/app.py")}
    assert {function["CodeUri"] for function in of_type("AWS::Serverless::Function").values()} >= folders


@pytest.mark.parametrize(("name", "statement"), list(statements()))
def test_no_permission_is_wider_than_needed(name: str, statement: dict[str, Any]) -> None:
    actions = set(listed(statement["Action"]))
    assert not [action for action in actions if "*" in action], f"{name} allows a wildcard of actions"
    if "*" in listed(statement["Resource"]):
        assert actions <= ACTIONS_WITHOUT_RESOURCES, f"{name} allows {actions} on everything"


def test_only_the_open_routes_have_no_authorizer() -> None:
    routes = of_type("AWS::ApiGatewayV2::Route").values()
    opened = {route["RouteKey"] for route in routes if "AuthorizationType" not in route}
    public = {"GET /v1/health", "GET /v1/sign-in", "GET /openapi.json", "GET /", "GET /assets/{proxy+}"}
    public |= {"ANY /awe/{proxy+}", "ANY /node/{proxy+}"}  # the function itself authenticates their requests
    assert opened == public
    for route in routes:
        if route["RouteKey"] not in public:
            signed = "/iam/" in route["RouteKey"]
            assert route["AuthorizationType"] == ("AWS_IAM" if signed else "CUSTOM")
            assert signed != ("AuthorizerId" in route)


def test_an_authorizer_without_identity_source_is_not_cached() -> None:
    (authorizer,) = of_type("AWS::ApiGatewayV2::Authorizer").values()
    assert "IdentitySource" not in authorizer
    assert authorizer["AuthorizerResultTtlInSeconds"] == 0


def test_visibility_timeouts_are_six_times_the_timeouts_of_the_functions() -> None:
    functions = of_type("AWS::Serverless::Function")
    lanes = [queue for name, queue in of_type("AWS::SQS::Queue").items() if name.startswith("Lambda")]
    mappings = [each["FunctionName"]["Ref"] for each in of_type("AWS::Lambda::EventSourceMapping").values()]
    assert len(lanes) == mappings.count("RunnerFunction") == 1
    assert all(queue["VisibilityTimeout"] >= 6 * functions["RunnerFunction"]["Timeout"] for queue in lanes)
    assert not [queue for queue in lanes if "RedrivePolicy" in queue]
    fire = of_type("AWS::SQS::Queue")["FireQueue"]
    assert fire["VisibilityTimeout"] >= 6 * functions["FireFunction"]["Timeout"]
    notify = of_type("AWS::SQS::Queue")["NotifyQueue"]
    assert notify["VisibilityTimeout"] >= 6 * TEMPLATE["Globals"]["Function"]["Timeout"]
    assert notify["RedrivePolicy"]["maxReceiveCount"] == MAX_ATTEMPTS


def test_function_names_leave_52_characters_for_the_stack_name() -> None:
    """Lambda allows 64 characters, SQS and Step Functions 80; the docs promise 52 for the stack name."""
    names = [each["FunctionName"]["Fn::Sub"] for each in of_type("AWS::Serverless::Function").values()]
    assert max(len(name.replace("${AWS::StackName}", "")) for name in names) + 52 <= 64


def test_there_are_no_yaml_aliases_which_cloudformation_rejects() -> None:
    text = (PROJECT / "template.yaml").read_text()
    assert not re.search(r"(?m)^[^#\"]*(: |- )[&*][a-z]|<<:", text)


def test_the_requirements_of_the_layer_are_the_locked_versions() -> None:
    lock = tomllib.loads((PROJECT / "uv.lock").read_text())
    locked = {each["name"]: each["version"] for each in lock["package"] if "version" in each}
    text = (PROJECT / "layers/core/requirements.txt").read_text()
    wanted = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", text))
    assert {"pydantic", "aws-lambda-powertools", "croniter"} <= set(wanted)
    assert not {"boto3", "botocore"} & set(wanted)
    assert {name: locked[name] for name in wanted} == wanted


def test_an_emulator_gets_the_template_without_aliases_of_state_machines() -> None:
    """Otherwise it would start executions through an alias that its CloudFormation does not create."""
    emulated = load_emulated_template(PROJECT / "template.yaml")
    text = json.dumps(emulated)
    assert "StateMachineAlias" not in text
    assert "StateMachineVersion" not in text
    assert "Aliaslive" not in text
    assert emulated["Resources"]["Setup"]["DependsOn"] == ["JobMachine", "StepMachine"]
    assert emulated["Globals"]["Function"]["Environment"]["Variables"]["SHARDMILL_MACHINE_ALIAS"] == ""
    aliases = of_type("AWS::StepFunctions::StateMachineAlias")  # AWS gets them
    assert {each["Name"] for each in aliases.values()} == {"live"}


def test_moto_cannot_publish_versions_of_state_machines() -> None:
    """Once it can, `load_emulated_template` need not remove them for the tests."""
    with mock_aws():
        client = boto3.client("stepfunctions", region_name="us-east-1")
        with pytest.raises(NotImplementedError, match="publish_state_machine_version"):
            client.publish_state_machine_version(
                stateMachineArn="arn:aws:states:us-east-1:123456789012:stateMachine:m"
            )
