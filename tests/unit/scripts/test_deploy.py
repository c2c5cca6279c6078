"""`make deploy`: a new stack gets a token, which is shown once; an update keeps the stack's token."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from moto import mock_aws
from scripts import deploy

from shardmill.engine.authorize import hash_of
from shardmill.local.sam_template import load_template
from support.paths import PROJECT

REGION = "eu-west-1"
URL = "https://abc.execute-api.eu-west-1.amazonaws.com"
TEMPLATE = json.dumps(
    {
        "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {"ApiUrl": {"Value": URL}},
    }
)


class Sam:
    """Stands in for `sam deploy`: records the command and creates the stack."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.exit_code = 0

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        self.commands.append(command)
        client = boto3.client("cloudformation", region_name=REGION)
        if not self.exit_code and not client.list_stacks()["StackSummaries"]:
            client.create_stack(StackName="mill", TemplateBody=TEMPLATE)
        return subprocess.CompletedProcess(command, self.exit_code)

    @property
    def hashes(self) -> list[str]:
        return self.given("AdminTokenHash")

    def given(self, name: str) -> list[str]:
        """The values of a parameter in the last command."""
        return [word.removeprefix(f"{name}=") for word in self.commands[-1] if word.startswith(f"{name}=")]


@pytest.fixture
def sam(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sam]:
    fake = Sam()
    monkeypatch.setattr(deploy.subprocess, "run", fake.run)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        yield fake


def run(*more: str) -> int:
    return int(deploy.main(["--stack", "mill", "--region", REGION, *more]))


def test_a_new_stack_gets_the_hash_of_the_token_that_is_shown(
    sam: Sam, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--parameter", "Architecture=x86_64") == 0
    shown = capsys.readouterr().out
    [token] = re.findall(r"SHARDMILL_TOKEN=(sm_[\w-]{43})\n", shown)
    assert f"the admin token: {token}\n" in shown
    assert sam.hashes == [hash_of(token)]
    assert "Architecture=x86_64" in sam.commands[-1]
    assert f"mill is ready at {URL}" in shown


def test_a_new_stack_gets_a_random_key_for_its_hashes_which_an_update_keeps(sam: Sam) -> None:
    pattern = load_template(PROJECT / "template.yaml")["Parameters"]["TokenKey"]["AllowedPattern"]
    assert run() == 0
    [key] = sam.given("TokenKey")
    assert re.fullmatch(pattern, key)
    assert len(set(key)) > 8
    assert run("--new-token") == 0
    assert sam.given("TokenKey") == []


def test_a_key_that_is_given_is_used(sam: Sam) -> None:
    assert run("--parameter", f"TokenKey={'a' * 64}") == 0
    assert sam.given("TokenKey") == ["a" * 64]


def test_an_update_keeps_the_token(sam: Sam, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    capsys.readouterr()
    assert run() == 0
    assert sam.hashes == []
    assert "sm_" not in capsys.readouterr().out


def test_the_token_of_a_stack_can_be_replaced(sam: Sam) -> None:
    assert run() == 0
    first = sam.hashes
    assert run("--new-token") == 0
    assert len(sam.hashes) == 1
    assert sam.hashes != first


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the Lambda concurrency of the account, which moto does not know."""

    def set_limit(executions: int) -> None:
        answer = {"AccountLimit": {"ConcurrentExecutions": executions}}
        real = deploy.boto3.client

        def client(service: str, **options: Any) -> Any:
            made = real(service, **options)
            if service == "lambda":
                made.get_account_settings = lambda: answer
            return made

        monkeypatch.setattr(deploy.boto3, "client", client)

    return set_limit


@pytest.mark.parametrize(
    ("executions", "parameter", "advised"),
    [(10, "", True), (1_000, "", False), (10, "RunnerConcurrency=2", False), (100, "", True)],
)
def test_workers_that_could_take_the_whole_concurrency_of_an_account_cause_a_warning(
    sam: Sam,
    capsys: pytest.CaptureFixture[str],
    limit: Callable[[int], None],
    executions: int,
    parameter: str,
    advised: bool,
) -> None:
    limit(executions)
    assert run(*(["--parameter", parameter] if parameter else [])) == 0
    shown = capsys.readouterr().out
    assert (f"Lambda runs {executions} functions" in shown) == advised
    assert ('PARAMETERS="RunnerConcurrency=2"' in shown) == advised


def test_a_concurrency_that_cannot_be_read_does_not_fail_the_deployment(
    sam: Sam, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert "concurrency of the account cannot be read" in capsys.readouterr().out  # moto has no answer
    assert run() == 0
    assert "concurrency" not in capsys.readouterr().out  # the parameter of the stack is kept


def test_a_failed_deployment_shows_no_token(sam: Sam, capsys: pytest.CaptureFixture[str]) -> None:
    sam.exit_code = 1
    assert run() == 1
    printed = capsys.readouterr()
    assert "sam deploy failed with exit code 1" in printed.err
    assert "sm_" not in printed.out


def test_the_token_is_shown_even_if_the_address_cannot_be_found(
    sam: Sam, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hash is deployed then, and nothing else knows the token."""

    def expired(*_: str) -> None:
        raise NoCredentialsError

    def run_sam(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        monkeypatch.setattr(deploy, "_find", expired)
        return sam.run(command, **options)

    monkeypatch.setattr(deploy.subprocess, "run", run_sam)
    assert run() == 1
    printed = capsys.readouterr()
    [token] = re.findall(r"sm_[\w-]{43}", printed.out)
    assert sam.hashes == [hash_of(token)]
    assert "Unable to locate credentials" in printed.err


def test_the_code_of_each_stack_has_a_folder_of_its_own(sam: Sam) -> None:
    """`sam delete` deletes the code of the stack from the bucket that all stacks of a region share."""
    assert run() == 0
    command = sam.commands[-1]
    assert command[command.index("--s3-prefix") + 1] == "mill"


def test_missing_credentials_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert run() == 1
    assert "AWS credentials are missing or not valid" in capsys.readouterr().err


def test_a_token_is_not_accepted_as_a_hash() -> None:
    pattern = load_template(PROJECT / "template.yaml")["Parameters"]["AdminTokenHash"]["AllowedPattern"]
    token = deploy.token_from(bytes(32))
    assert not re.fullmatch(pattern, token)
    assert re.fullmatch(pattern, hash_of(token))


class Status:
    """A CloudFormation whose stack has a status that moto never shows."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.tags: dict[str, str] = {}

    def client(self, service: str, **options: Any) -> Any:
        return self if service == "cloudformation" else boto3.client(service, **options)

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        outputs = [{"OutputKey": "ApiUrl", "OutputValue": URL}] if self.status.endswith("COMPLETE") else []
        tags = [{"Key": name, "Value": value} for name, value in self.tags.items()]
        stack = {"StackName": StackName, "StackStatus": self.status, "Outputs": outputs, "Tags": tags}
        return {"Stacks": [stack]}


@pytest.fixture
def status(sam: Sam, monkeypatch: pytest.MonkeyPatch) -> Status:
    found = Status("")
    monkeypatch.setattr(deploy, "boto3", found)
    return found


def test_a_stack_whose_first_change_set_failed_gets_a_token(
    sam: Sam, status: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    """CloudFormation lists it as REVIEW_IN_PROGRESS, though it has no resources and no parameters."""
    status.status = "REVIEW_IN_PROGRESS"
    assert run() == 0
    [shown] = set(re.findall(r"sm_[A-Za-z0-9_-]+", capsys.readouterr().out))
    assert [hash_of(shown)] == sam.hashes


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        ("DELETE_IN_PROGRESS", "wait stack-delete-complete --stack-name mill --region eu-west-1"),
        ("CREATE_IN_PROGRESS", "wait stack-create-complete"),
        ("UPDATE_IN_PROGRESS", "wait stack-update-complete"),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "wait stack-update-complete"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "wait stack-rollback-complete"),
        ("ROLLBACK_IN_PROGRESS", "wait stack-create-complete"),  # the one that returns at ROLLBACK_COMPLETE
        ("ROLLBACK_COMPLETE", "delete-stack --stack-name mill --region eu-west-1"),
        ("DELETE_FAILED", "delete-stack"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback --stack-name mill"),
    ],
)
def test_a_stack_that_cannot_be_deployed_now_says_what_to_do(
    sam: Sam, status: Status, capsys: pytest.CaptureFixture[str], found: str, advice: str
) -> None:
    status.status = found
    assert run() == 1
    said = capsys.readouterr().err
    assert found in said
    assert advice in said
    assert sam.commands == []


@pytest.mark.parametrize("name", ["m" * 47, "1mill", "mill_prod", ""])
def test_a_stack_name_that_would_fail_later_is_refused(
    sam: Sam, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Names of functions and queues begin with it, and have limits."""
    assert deploy.main(["--stack", name, "--region", REGION]) == 1
    assert "46 characters" in capsys.readouterr().err
    assert sam.commands == []


def test_the_longest_stack_name_is_accepted(sam: Sam) -> None:
    assert deploy.main(["--stack", "m" * 46, "--region", REGION]) == 0


def tags(sam: Sam) -> list[str]:
    command = sam.commands[-1]
    return command[command.index("--tags") + 1 :] if "--tags" in command else []


def test_an_update_keeps_the_tags_of_the_stack(sam: Sam, status: Status) -> None:
    """`sam deploy` without tags removes them."""
    status.status = "UPDATE_COMPLETE"
    status.tags = {"team": "data", "cost center": "42 a"}
    assert run() == 0
    assert tags(sam) == ["team=data", '"cost center"="42 a"']
    assert run("--tag", "team=ops", "--tag", "stage=prod") == 0
    assert tags(sam) == ["team=ops", '"cost center"="42 a"', "stage=prod"]


def test_a_stack_whose_functions_another_stack_may_invoke_is_refused(
    sam: Sam, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks of the stack `mill` may invoke the functions `mill-task-*`."""
    for name in ("mill-task", "mill-task-2"):
        assert deploy.main(["--stack", name, "--region", REGION]) == 1
        assert "-task" in capsys.readouterr().err
    assert sam.commands == []
    assert deploy.main(["--stack", "mill-tasks", "--region", REGION]) == 0


def test_a_value_with_spaces_is_quoted_for_sam(sam: Sam) -> None:
    assert run("--parameter", "OidcClientScopes=a b", "--parameter", "LogRetentionDays=7") == 0
    command = sam.commands[-1]
    assert 'OidcClientScopes="a b"' in command
    assert "LogRetentionDays=7" in command
