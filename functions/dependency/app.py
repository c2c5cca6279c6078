"""Starts or releases the dependents of a Job that has ended."""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id, now_ms
from shardmill.aws.observability import EVENT, logger, observed
from shardmill.engine.downstream import job_ended
from shardmill.engine.mill import mill


@observed(EVENT, jobId="detail.jobId", run="detail.run")
@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    detail = cast(dict[str, Any], event.detail)
    notified = job_ended(mill(), detail["jobId"], detail["run"], now_ms(), new_id)
    message = "notified dependents" if notified else "no dependents to notify"
    logger.info(message, extra={"action": "notify-dependents"})
    return {"notified": notified}
