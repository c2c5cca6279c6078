"""Fires schedules at their time, and due schedules that were too many for one invocation of the tick."""

import json
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws import clock
from shardmill.aws.observability import BATCH, logger, measure, observed
from shardmill.engine.mill import mill
from shardmill.engine.schedules.due import fire_listed


@observed(BATCH)
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    messages = [json.loads(record["body"]) for record in event["Records"]]
    fired = [fire_listed(mill(), each, clock.new_id, clock.now_ms, clock.wait_until) for each in messages]
    if any(each["fired"] for each in fired):
        measure(FiringLag=max(each["lag"] for each in fired))
    logger.info("fired schedules", extra={"action": "fire-schedules", "chunks": fired})
