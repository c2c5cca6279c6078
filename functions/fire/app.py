"""Fires due schedules that the tick passed on because there were too many for one invocation."""

import json
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observability import BATCH, logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.schedules.due import fire_listed


@observed(BATCH)
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    fired = [fire_listed(mill(), json.loads(record["body"]), new_id) for record in event["Records"]]
    logger.info("fired schedules", extra={"action": "fire-schedules", "chunks": fired})
