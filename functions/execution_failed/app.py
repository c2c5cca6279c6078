"""A Step Functions execution failed, timed out or was aborted: fails the Job or step that it ran."""

from typing import Any, cast

from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import EVENT, count, logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.orchestrate import cause_of
from shardmill.engine.repair import end_failed_execution


@observed(EVENT, execution="detail.name")
@event_parser(model=EventBridgeModel)
def handler(event: EventBridgeModel, context: LambdaContext) -> dict[str, Any]:
    detail = cast(dict[str, Any], event.detail)
    cause = f"its execution ended as {detail['status']} ({cause_of(detail)})"
    failed = end_failed_execution(mill(), detail["name"], cause, now_ms())
    count(ExecutionsFailed=1)
    logger.info(
        "ended the job or step of the execution" if failed else "nothing to end",
        extra={"action": "execution-failed"},
    )
    return {"failed": failed}
