"""Runs every minute: fires due schedules, hands over those due soon, and repairs interrupted Jobs.

If many Jobs are due, the tick passes them on in chunks, each an event that invokes this function again.
Such an event also continues work that is too long for one call.
"""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws import clock
from shardmill.aws.observability import EVENT, count, logger, measure, observed
from shardmill.engine.continuation import JOBS_DUE
from shardmill.engine.mill import mill
from shardmill.engine.repair import repair_listed
from shardmill.engine.tick import tick
from shardmill.model.timestamps import to_ms


@observed(EVENT)
@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    if event.detail_type == JOBS_DUE:
        detail = cast(dict[str, Any], event.detail)
        result = repair_listed(mill(), detail, to_ms(event.time), clock.new_id)
    else:
        result = tick(mill(), to_ms(event.time), clock.new_id, clock.now_ms)
        count(SchedulesDue=result["due"])
        if result["fired"]:
            measure(FiringLag=result["lag"])
    count(JobsChecked=result["looked"], RepairsFailed=result["failed"])
    logger.info("tick done", extra={"action": "tick", **result})
    return result
