"""The protocol of CloudFormation's custom resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import urllib3
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.observability import logger

Handler = Callable[[dict[str, Any], LambdaContext], None]

MAX_ANSWER = 4_096
"""The bytes of an answer. CloudFormation ignores a longer one and waits for its own timeout."""
_RETRIES = urllib3.Retry(3, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504))
_TIMEOUT = urllib3.Timeout(connect=2, read=4)
"""With all retries less than RESERVE_MS of engine/groups/deployment.py."""


def responds_to_cloudformation(handler: Handler) -> Handler:
    """Report the result of a handler to CloudFormation, which otherwise waits for an hour."""

    @wraps(handler)
    def wrapped(event: dict[str, Any], context: LambdaContext) -> None:
        status, reason = "SUCCESS", ""
        try:
            handler(event, context)
        except Exception as error:
            logger.exception("the custom resource failed", extra={"action": "custom-resource"})
            status, reason = "FAILED", f"{type(error).__name__}: {error}"
        response = urllib3.PoolManager().request(
            "PUT",
            event["ResponseURL"],
            body=_answer(event, status, reason or "done"),
            headers={"content-type": ""},
            retries=_RETRIES,
            timeout=_TIMEOUT,
        )
        if response.status >= 300:
            raise RuntimeError(
                f"CloudFormation rejected the response of the custom resource: {response.status}"
            )

    return wrapped


def _answer(event: dict[str, Any], status: str, reason: str) -> bytes:
    """The answer in JSON, with as much of the reason as fits."""
    body = {
        "Status": status,
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    while True:
        data = json.dumps({**body, "Reason": reason}).encode()
        if len(data) <= MAX_ANSWER or not reason:
            return data
        reason = reason[: len(reason) * 3 // 4]
