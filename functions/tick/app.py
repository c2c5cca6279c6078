"""Each minute: fires what is due, and repairs whatever a crash left."""

from typing import Any

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observability import count, logger
from shardmill.engine.mill import mill
from shardmill.engine.tick import tick
from shardmill.model.base import to_ms


@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    result = tick(mill(), to_ms(event.time), new_id)
    count(JobsLookedAt=result["looked"], JobsNotRepaired=result["failed"], SchedulesDue=result["due"])
    logger.info("ticked", extra={"action": "tick", **result})
    return result
