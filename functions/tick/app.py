"""Runs every minute: fires due schedules and repairs Jobs whose progress was interrupted."""

from typing import Any

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observability import EVENT, count, logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.tick import tick
from shardmill.model.base import to_ms


@observed(EVENT)
@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    result = tick(mill(), to_ms(event.time), new_id)
    count(JobsChecked=result["looked"], RepairsFailed=result["failed"], SchedulesDue=result["due"])
    logger.info("tick done", extra={"action": "tick", **result})
    return result
