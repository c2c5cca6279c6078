"""Deploy the built template with `sam deploy`. A new stack gets a new admin token, which is shown once."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.authorize import hash_of, token_from
from shardmill.local.sam_template import load_template

ROOT = Path(__file__).parents[1]
STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,45}")
BUILT = ROOT / ".aws-sam" / "build" / "template.yaml"


class Refused(Exception):
    """The deployment cannot start."""


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    try:
        _check_name(options.stack)
        account = _account(options.region)
        known = _find(options.stack, options.region)
        token = None if known is not None and not options.new_token else token_from(secrets.token_bytes(32))
        print(f"deploying the stack {options.stack} to account {account} in {options.region}")
        parameters = dict(each.partition("=")[::2] for each in options.parameters)
        if known is None:  # a later change would make the tokens of the stack invalid
            parameters.setdefault("TokenKey", secrets.token_hex(32))
        if token:
            parameters["AdminTokenHash"] = hash_of(token)
        _deploy(options, parameters, known.tags if known else {})
        if token:
            print(_shown(token), flush=True)  # print it now, because the next steps can fail
        if known is None and (advice := _concurrency_advice(options.region, parameters)):
            print(f"\n{advice}")
        found = _find(options.stack, options.region)
    except (Refused, BotoCoreError, ClientError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    print(_next_steps(options.stack, options.region, found.url if found else "", token))
    return 0


def _shown(token: str) -> str:
    return (
        f"\nthe admin token: {token}\n"
        "Only its hash is stored. Keep the token; it is not shown again. NEW_TOKEN=1 replaces a lost token."
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stack", required=True, help="name of the stack; at most 46 characters")
    parser.add_argument("--region", required=True)
    parser.add_argument("--sam", default=str(ROOT / ".venv-sam/bin/sam"), help="the sam command")
    parser.add_argument("--new-token", action="store_true", help="replace the admin token of the stack")
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", dest="parameters")
    parser.add_argument("--tag", action="append", default=[], metavar="NAME=VALUE", dest="tags")
    return parser.parse_args(arguments)


def _check_name(stack: str) -> None:
    if not STACK_NAME.fullmatch(stack):
        raise Refused(
            f"{stack!r} cannot be the name of a stack: use letters, digits and hyphens, beginning with a "
            "letter, and at most 46 characters, because the names of functions and queues begin with it"
        )
    if re.search("-task(-|$)", stack):
        raise Refused(
            f"{stack!r} cannot be the name of a stack: tasks of a stack NAME may invoke functions NAME-task-*"
        )


def _account(region: str) -> str:
    try:
        return str(boto3.client("sts", region_name=region).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise Refused(
            f"AWS credentials are missing or not valid ({error}); run `aws configure`, or set AWS_PROFILE"
        ) from error


def _concurrency_advice(region: str, parameters: Mapping[str, str]) -> str:
    """Advice for the case that the Lambda workers could take all concurrency of the account; else empty."""
    default = load_template(ROOT / "template.yaml")["Parameters"]["RunnerConcurrency"]["Default"]
    most = int(parameters.get("RunnerConcurrency", default))
    command = 'deploy again with PARAMETERS="RunnerConcurrency=2", until AWS has raised that quota'
    try:
        settings = boto3.client("lambda", region_name=region).get_account_settings()
    except ClientError as error:
        return (
            f"The Lambda concurrency of the account cannot be read ({error}). "
            f"If it is {most} or less, {command}."
        )
    limit = settings["AccountLimit"]["ConcurrentExecutions"]
    if limit > most:
        return ""
    return (
        f"Lambda runs {limit} functions of the account at once in this region, and the Lambda workers may "
        f"take {most} of them, which leaves none for the API: {command}."
    )


class Stack(NamedTuple):
    """A stack that exists."""

    url: str
    tags: dict[str, str]


def _find(stack: str, region: str) -> Stack | None:
    """A stack that can be deployed; None if it does not exist."""
    client = boto3.client("cloudformation", region_name=region)
    try:
        [found] = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    status = found["StackStatus"]
    if status == "REVIEW_IN_PROGRESS":  # a change set of a stack that was never created
        return None
    if advice := _advice(status):
        what, command = advice
        raise Refused(
            f"the stack {stack} is {status} and cannot be deployed; {what}: "
            f"aws cloudformation {command} --stack-name {stack} --region {region}"
        )
    outputs = {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}
    tags = {each["Key"]: each["Value"] for each in found.get("Tags", [])}
    return Stack(outputs.get("ApiUrl", ""), tags)


def _advice(status: str) -> tuple[str, str] | None:
    """The steps before a stack with this status can be deployed; None if it can be deployed now."""
    if status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"):
        return "delete it first", "delete-stack"
    if status == "UPDATE_ROLLBACK_FAILED":
        return "continue its rollback first", "continue-update-rollback"
    if status == "ROLLBACK_IN_PROGRESS":  # stack-rollback-complete waits for rollbacks of updates only
        return "wait until its creation has failed, then delete it", "wait stack-create-complete"
    if status.endswith("_IN_PROGRESS"):
        action = "rollback" if "ROLLBACK" in status else status.split("_")[0].lower()
        return "wait until that has ended", f"wait stack-{action}-complete"
    return None


def _deploy(
    options: argparse.Namespace, parameters: Mapping[str, str], known_tags: Mapping[str, str]
) -> None:
    """Run `sam deploy`. Parameters and tags that are not given keep their values when a stack is updated."""
    command = [options.sam, "deploy", "--template-file", str(BUILT), "--no-confirm-changeset"]
    command += [
        "--no-fail-on-empty-changeset",
        "--resolve-s3",
        "--s3-prefix",  # `sam delete` deletes only this prefix, not code that stacks share
        options.stack,
        "--capabilities",
        "CAPABILITY_IAM",
        "CAPABILITY_AUTO_EXPAND",
    ]
    command += ["--stack-name", options.stack, "--region", options.region]
    command += ["--parameter-overrides", *_pairs(parameters)] if parameters else []
    # Parameters are kept by `sam`; tags would be removed.
    tags = {**known_tags, **dict(each.partition("=")[::2] for each in options.tags)}
    command += ["--tags", *_pairs(tags)] if tags else []
    done = subprocess.run(command, env=os.environ | {"SAM_CLI_TELEMETRY": "0"}, check=False)
    if done.returncode:
        raise Refused(f"sam deploy failed with exit code {done.returncode}; its output says why")


def _pairs(values: Mapping[str, str]) -> list[str]:
    """NAME=VALUE as `sam` reads them: with quotes around spaces."""
    return [f"{_quoted(name)}={_quoted(values[name])}" for name in values]


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def _next_steps(stack: str, region: str, url: str, token: str | None) -> str:
    shown = token or "<the token shown when the stack was created; NEW_TOKEN=1 replaces it>"
    lines = [
        "",
        f"{stack} is ready at {url}",
        "",
        f"export SHARDMILL_URL={url} SHARDMILL_TOKEN={shown}",
        ".venv/bin/shardmill define examples/hello-lambda.yaml",
        ".venv/bin/shardmill submit hello-lambda --wait",
        "",
        f"remove it again: make undeploy STACK={stack} REGION={region}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
