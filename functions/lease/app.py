"""POST /v1/work:lease, apart from the other routes because it waits for tasks."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api.app import app_of_module, resolve
from shardmill.aws.observability import API_REQUEST, observed

app_of_module("lease")  # imported while Lambda initialises the function, because every request needs it


@observed(API_REQUEST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return resolve(event, context)
