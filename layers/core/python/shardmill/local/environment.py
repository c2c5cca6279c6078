"""Environment variables of the laptop cloud's processes, without the user's AWS configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping

from shardmill.client.dev_session import Session

REGION = "us-east-1"
LOOPBACK = "127.0.0.1"
_OURS = ("AWS_", "SHARDMILL_", "MINISTACK_", "LAMBDA_", "LOCALSTACK_", "POWERTOOLS_")
_NO_PROXY = ("NO_PROXY", "no_proxy")
_SETTINGS = {
    "SHARDMILL_STACK": "StackName",
    "SHARDMILL_TABLE": "TableName",
    "SHARDMILL_BUCKET": "BucketName",
    "SHARDMILL_JOB_MACHINE": "JobMachineArn",
    "SHARDMILL_STEP_MACHINE": "StepMachineArn",
    "SHARDMILL_LAMBDA_QUEUES": "LambdaQueueUrls",
    "SHARDMILL_DEAD_QUEUE": "DeadQueueUrl",
}


def clean_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without variables that select another AWS account or endpoint."""
    source = os.environ if base is None else base
    kept = {name: value for name, value in source.items() if not name.startswith(_OURS)}
    for name in _NO_PROXY:
        others = [host for host in kept.get(name, "").split(",") if host]
        kept[name] = ",".join(dict.fromkeys([*others, LOOPBACK, "localhost"]))
    return kept


def aws_environment(endpoint: str) -> dict[str, str]:
    """Variables that make an AWS SDK use the laptop cloud and nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def session_environment(session: Session) -> dict[str, str]:
    """Variables of a process that uses a running laptop cloud, over HTTP or the AWS APIs."""
    return {
        "SHARDMILL_URL": session.url,
        "SHARDMILL_TOKEN": session.token,
        "SHARDMILL_BUS": "default",
        **{name: session.outputs[output] for name, output in _SETTINGS.items()},
        **aws_environment(session.aws_endpoint),
    }


def worker_environment(session: Session) -> dict[str, str]:
    """Variables of a worker that uses the AWS APIs, which needs no token."""
    return {name: value for name, value in session_environment(session).items() if name != "SHARDMILL_TOKEN"}
