"""An execution failed, timed out or was aborted: end truthfully what it stood for."""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import logger
from shardmill.engine.mill import mill
from shardmill.engine.orchestrate import cause_of
from shardmill.engine.repair import end_failed_execution


@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    detail = cast(dict[str, Any], event.detail)
    cause = f"its execution ended as {detail['status']} ({cause_of(detail)})"
    settled = end_failed_execution(mill(), detail["name"], cause, now_ms())
    logger.info("settled", extra={"action": "settle", "execution": detail["name"], "settled": settled})
    return {"settled": settled}
