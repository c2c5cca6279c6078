"""Custom resource: makes what a stack needs at run time, and removes what was made then."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.custom_resource import answered
from shardmill.aws.observability import logger
from shardmill.engine.groups import groups
from shardmill.engine.mill import mill


@answered
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    if event["RequestType"] == "Delete":
        groups.tear_down(mill())
    else:
        groups.set_up(mill(), now_ms())
    logger.info("set up", extra={"action": "setup", "request": event["RequestType"]})
