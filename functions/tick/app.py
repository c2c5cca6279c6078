"""Runs every minute: fires due schedules and repairs Jobs whose progress was interrupted.

If many Jobs are due, the tick passes them on in chunks, each an event that invokes this function again.
"""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observability import EVENT, count, logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.repair import JOBS_DUE, repair_listed
from shardmill.engine.tick import tick
from shardmill.model.base import to_ms


@observed(EVENT)
@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    if event.detail_type == JOBS_DUE:
        result = repair_listed(mill(), cast(dict[str, Any], event.detail), new_id)
    else:
        result = tick(mill(), to_ms(event.time), new_id)
        count(SchedulesDue=result["due"])
    count(JobsChecked=result["looked"], RepairsFailed=result["failed"])
    logger.info("tick done", extra={"action": "tick", **result})
    return result
