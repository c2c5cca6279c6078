"""CloudFormation's custom resources: whatever happens, CloudFormation gets an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import urllib3
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.observability import logger

Handler = Callable[[dict[str, Any], LambdaContext], None]


def answered(handler: Handler) -> Handler:
    """Tell CloudFormation how a handler went: one that is not told waits for an hour."""

    @wraps(handler)
    def wrapped(event: dict[str, Any], context: LambdaContext) -> None:
        status, reason = "SUCCESS", ""
        try:
            handler(event, context)
        except Exception as error:
            logger.exception("a custom resource failed")
            status, reason = "FAILED", f"{type(error).__name__}: {error}"
        body = {
            "Status": status,
            "Reason": reason or "done",
            "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
        }
        data = json.dumps(body).encode()
        answer = urllib3.PoolManager().request(
            "PUT", event["ResponseURL"], body=data, headers={"content-type": ""}
        )
        if answer.status >= 300:
            raise RuntimeError(f"CloudFormation did not take the answer: {answer.status}")

    return wrapped
