"""Search for secrets in everything that a deployment wrote, answered or logged."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient

from support.moto.http_api import Answer, HttpApi
from support.scenarios.job_runner import JobRunner


def flat(value: Any) -> str:
    """All text in a value, decompressed where it is compressed."""
    if isinstance(value, bytes):
        with suppress(zlib.error):
            value = zlib.decompress(value)
        return value.decode(errors="replace")
    if isinstance(value, dict):
        return " ".join(f"{name} {flat(each)}" for name, each in value.items())
    return " ".join(map(flat, value)) if isinstance(value, list | set | tuple) else str(value)


def rows_with(runner: JobRunner, secret: str) -> list[tuple[str, str]]:
    """The keys of the rows that contain a text."""
    pages = runner.cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=runner.cloud.table)
    items = [item for page in pages for item in page["Items"]]
    return [(item["pk"]["S"], item["sk"]["S"]) for item in items if secret in flat(item)]


def stored_elsewhere(runner: JobRunner) -> str:
    """Everything in S3, in executions and on the bus."""
    found: list[Any] = [runner.cloud.published()]
    s3 = runner.cloud.clients.s3
    for item in s3.list_objects_v2(Bucket=runner.cloud.bucket).get("Contents", []):
        found.append(s3.get_object(Bucket=runner.cloud.bucket, Key=item["Key"])["Body"].read())
    for execution in runner.cloud.executions():
        arn = execution["executionArn"]
        found.append(runner.cloud.clients.stepfunctions.describe_execution(executionArn=arn))
        found.append(runner.cloud.clients.stepfunctions.get_execution_history(executionArn=arn))
    return flat(found)


@contextmanager
def recorded_answers() -> Iterator[list[tuple[str, str]]]:
    """The path and the text of each answer of the HTTP API."""
    found: list[tuple[str, str]] = []
    original = HttpApi.request

    def request(self: HttpApi, method: str, path: str, body: bytes | None, headers: Any) -> Answer:
        answer = original(self, method, path, body, headers)
        found.append((path, json.dumps([answer.text, dict(answer.headers)])))
        return answer

    with patch.object(HttpApi, "request", request):
        yield found


@contextmanager
def recorded_calls() -> Iterator[list[tuple[str, str]]]:
    """The name of each AWS call, and the text of its parameters: what is written, even if deleted later."""
    found: list[tuple[str, str]] = []
    original = BaseClient._make_api_call

    def call(self: Any, operation: str, parameters: Any) -> Any:
        found.append((operation, flat(parameters)))
        return original(self, operation, parameters)

    with patch.object(BaseClient, "_make_api_call", call):
        yield found
