"""The HTTP API: every route except the lease."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api.app import resolve
from shardmill.aws.observability import API_REQUEST, observed


@observed(API_REQUEST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return resolve(event, context)
