"""boto3 clients: one session per process, created on first use, with retries that suit short calls."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_events import EventBridgeClient
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient
    from types_boto3_stepfunctions import SFNClient

_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 5},
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=32,
    tcp_keepalive=True,
    parameter_validation=False,  # tests cover the parameters; validating them takes a fifth of a call
)


@cache
def _session() -> boto3.Session:
    return boto3.Session()


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
def secretsmanager() -> Any:
    return _session().client("secretsmanager", config=_CONFIG)
