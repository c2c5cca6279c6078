"""CloudFormation custom resource: sets up the worker groups, and cleans up with the stack."""

from time import sleep
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.custom_resource import responds_to_cloudformation
from shardmill.aws.observability import logger, observed
from shardmill.engine.groups import deployment
from shardmill.engine.mill import mill


@observed("RequestId", request="RequestType")
@responds_to_cloudformation
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    if event["RequestType"] == "Delete":
        deployment.tear_down(mill(), context.get_remaining_time_in_millis, sleep)
    else:
        deployment.set_up(mill(), now_ms(), sleep)
    logger.info("custom resource done", extra={"action": "custom-resource"})
