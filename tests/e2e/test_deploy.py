"""docs/aws.md with the real `sam` on the laptop cloud: deploy, run a job, update, and delete everything.

MiniStack plays CloudFormation. It has no AWS::LanguageExtensions and no versions of state machines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.local import emulator_quirks
from shardmill.local.deploy import Endpoint, Package
from shardmill.local.environment import REGION
from support.laptop import Laptop, start_laptop
from support.paths import PROJECT

SAM = PROJECT / ".venv-sam/bin/sam"
STACK = "try"
DEPLOY = """
import sys
from pathlib import Path
from scripts import deploy
deploy.BUILT = Path(sys.argv[1])
sys.exit(deploy.main(sys.argv[2:]))
"""
pytestmark = [
    pytest.mark.timeout(600),  # deleting a stack waits for a minute without new objects
    pytest.mark.skipif(not SAM.exists(), reason="`make sam` installs sam"),
]


def built(folder: Path) -> Path:
    """The template as `sam build` leaves it, with a layer for this machine."""
    package = Package(PROJECT)
    template: dict[str, Any] = json.loads(json.dumps(package.template))
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        resource.pop("Metadata", None)
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            properties["ContentUri"] = str(folder / name)
            for file, content in package.files[name].items():
                (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / file).write_bytes(content)
        for source in {"CodeUri", "DefinitionUri"} & properties.keys():
            properties[source] = str(PROJECT / properties[source])
    emulator_quirks.concurrency_as_numbers(template, {"RunnerConcurrency": "5"})
    (folder / "template.json").write_text(json.dumps(template))
    return folder / "template.json"


class Account:
    """An AWS account to which the test deploys."""

    def __init__(self, laptop: Laptop, folder: Path) -> None:
        self.endpoint = Endpoint(laptop.aws_endpoint)
        self._template = built(folder)
        self._environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("AWS_", "SHARDMILL_"))
            },
            "HOME": str(folder),
            "AWS_ENDPOINT_URL": laptop.aws_endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "SAM_CLI_TELEMETRY": "0",
        }

    def deploy(self, *parameters: str) -> str:
        """What `make deploy` prints."""
        named = [f"--parameter={each}" for each in parameters]
        arguments = [str(self._template), "--stack", STACK, "--region", REGION, "--sam", str(SAM), *named]
        return self._run([sys.executable, "-c", DEPLOY, *arguments])

    def undeploy(self) -> str:
        return self._run([str(SAM), "delete", "--stack-name", STACK, "--region", REGION, "--no-prompts"])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            env=self._environment,
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def shardmill(self, token: str, *command: str) -> str:
        """A command against the deployed API, by the address that needs no name server."""
        url = f"{self.endpoint.url}/_aws/execute-api/{self.output('ApiId')}"
        given = {**self._environment, "SHARDMILL_URL": url, "SHARDMILL_TOKEN": token}
        done = subprocess.run(
            [sys.executable, "-m", "shardmill", *command],
            env=given,
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def stack(self) -> dict[str, Any]:
        [found] = self.endpoint.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return dict(found)

    def output(self, name: str) -> str:
        return next(str(each["OutputValue"]) for each in self.stack()["Outputs"] if each["OutputKey"] == name)

    def left(self) -> list[str]:
        """The names of all resources that contain the name of the stack."""
        client = self.endpoint.client
        listed: dict[str, Callable[[], list[str]]] = {
            "dynamodb": lambda: client("dynamodb").list_tables()["TableNames"],
            "s3": lambda: [each["Name"] for each in client("s3").list_buckets()["Buckets"]],
            "sqs": lambda: client("sqs").list_queues().get("QueueUrls", []),
            "lambda": lambda: [
                each["FunctionName"] for each in client("lambda").list_functions()["Functions"]
            ],
            "states": lambda: [
                each["name"] for each in client("stepfunctions").list_state_machines()["stateMachines"]
            ],
            "logs": lambda: [
                each["logGroupName"] for each in client("logs").describe_log_groups()["logGroups"]
            ],
            "ssm": lambda: [each["Name"] for each in client("ssm").describe_parameters()["Parameters"]],
            "iam": lambda: [each["RoleName"] for each in client("iam").list_roles()["Roles"]],
            "events": lambda: [each["Name"] for each in client("events").list_rules()["Rules"]],
            "apigateway": lambda: [each["Name"] for each in client("apigatewayv2").get_apis()["Items"]],
            "code": lambda: list(self._code()),
        }
        names = [f"{service} {name}" for service, names in listed.items() for name in names()]
        return [name for name in names if re.search(rf"\b{STACK}\b", name)]

    def _code(self) -> Iterator[str]:
        """The objects that `sam deploy` uploaded, in buckets of all stacks."""
        s3 = self.endpoint.client("s3")
        for bucket in s3.list_buckets()["Buckets"]:
            for each in s3.list_objects_v2(Bucket=bucket["Name"], Prefix=f"{STACK}/").get("Contents", []):
                yield each["Key"]


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with start_laptop(tmp_path, workers=0) as laptop:
        yield Account(laptop, tmp_path)


def test_a_stack_is_deployed_runs_a_job_is_updated_and_deleted(account: Account) -> None:
    assert account.left() == []
    said = account.deploy("WhenDeleted=Delete", "LogRetentionDays=7")
    [token] = set(re.findall(r"sm_[\w-]{43}", said))
    commands = said[said.index("export SHARDMILL_URL=") :]
    assert f"SHARDMILL_TOKEN={token}" in commands
    for each in re.findall(r"^\.venv/bin/shardmill (.+)$", commands, re.M):
        answer = account.shardmill(token, *each.split())
    assert "SUCCESS" in answer

    said = account.deploy("ApiRateLimit=500")
    assert "sm_" not in said
    kept = {each["ParameterKey"]: each["ParameterValue"] for each in account.stack()["Parameters"]}
    assert (kept["LogRetentionDays"], kept["ApiRateLimit"], kept["WhenDeleted"]) == ("7", "500", "Delete")
    assert "hello-lambda" in account.shardmill(token, "jobs")

    assert any(name.startswith("code ") for name in account.left())
    account.undeploy()
    assert account.left() == []
