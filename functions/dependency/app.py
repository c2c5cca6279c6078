"""A Job ended: starts those that waited for it."""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id, now_ms
from shardmill.aws.observability import logger
from shardmill.engine.downstream import job_ended
from shardmill.engine.mill import mill


@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    detail = cast(dict[str, Any], event.detail)
    told = job_ended(mill(), detail["jobId"], detail["run"], now_ms(), new_id)
    logger.info("told", extra={"action": "dependency", "jobId": detail["jobId"], "told": told})
    return {"told": told}
