"""Fires schedules that were due together, more than the tick alone could."""

import json
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observability import logger
from shardmill.engine.mill import mill
from shardmill.engine.schedules.due import fire_listed


def handler(event: dict[str, Any], context: LambdaContext) -> None:
    fired = [fire_listed(mill(), json.loads(record["body"]), new_id) for record in event["Records"]]
    logger.info("fired", extra={"action": "fire", "chunks": fired})
