"""boto3 clients: one session per process, created on first use, with retries that suit short calls."""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as NotConnected

from shardmill.aws.credentials import new_session

if TYPE_CHECKING:
    import boto3
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_events import EventBridgeClient
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient
    from types_boto3_stepfunctions import SFNClient


def _user_agent() -> str:
    """The User-Agent of all calls. botocore would put its own together twice in each, a sixth of a call."""
    import boto3  # before botocore, it would make the import of this module slower

    python, system = platform.python_version(), f"{platform.system()}/{platform.release()}"
    parts = [f"Boto3/{boto3.__version__} Python/{python} {system}"]
    for name, variable in (("exec-env", "AWS_EXECUTION_ENV"), ("app", "AWS_SDK_UA_APP_ID")):
        if value := os.environ.get(variable):
            parts.append(f"{name}/{value}")
    return " ".join(parts)


_CONFIG = Config(
    user_agent=_user_agent(),
    retries={"mode": "standard", "max_attempts": 5},
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=32,
    tcp_keepalive=True,
    parameter_validation=False,  # tests cover the parameters; validating them takes a fifth of a call
)

_THROTTLES = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "SlowDown",
    "ThrottlingException",
    "TooManyRequestsException",
}


def is_temporary(error: Exception) -> bool:
    """Whether AWS throttled a call, failed it with a 5xx status, or did not answer, also after retries."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or error.response["Error"]["Code"] in _THROTTLES
    return isinstance(error, NotConnected | HTTPClientError)


@cache
def _session() -> boto3.Session:
    return new_session()


def credentials() -> Any:
    """The credentials of this process as they are now, to sign a request that another process sends."""
    found = _session().get_credentials()
    if found is None:
        raise NoCredentialsError
    return found.get_frozen_credentials()


@cache
def dynamodb() -> DynamoDBClient:
    return _session().client("dynamodb", config=_CONFIG)


@cache
def sqs() -> SQSClient:
    return _session().client("sqs", config=_CONFIG)


@cache
def stepfunctions() -> SFNClient:
    return _session().client("stepfunctions", config=_CONFIG)


@cache
def events() -> EventBridgeClient:
    return _session().client("events", config=_CONFIG)


@cache
def s3() -> S3Client:
    # Presigned URLs name the regional host: the global one redirects, which breaks the signature.
    regional = Config(signature_version="s3v4", s3={"addressing_style": "virtual"})
    return _session().client("s3", config=_CONFIG.merge(regional))


@cache
def sns() -> Any:
    return _session().client("sns", config=_CONFIG)


@cache
def ssm() -> Any:
    return _session().client("ssm", config=_CONFIG)


@cache
def kms() -> Any:
    return _session().client("kms", config=_CONFIG)


@cache
def secretsmanager() -> Any:
    return _session().client("secretsmanager", config=_CONFIG)


@cache
def lambda_() -> Any:
    return _session().client("lambda", config=_CONFIG)
