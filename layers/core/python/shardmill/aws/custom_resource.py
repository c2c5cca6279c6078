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
        body = {
            "Status": status,
            "Reason": reason or "done",
            "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
        }
        data = json.dumps(body).encode()
        response = urllib3.PoolManager().request(
            "PUT", event["ResponseURL"], body=data, headers={"content-type": ""}
        )
        if response.status >= 300:
            raise RuntimeError(
                f"CloudFormation rejected the response of the custom resource: {response.status}"
            )

    return wrapped
