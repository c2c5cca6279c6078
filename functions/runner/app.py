"""The Lambda worker: runs the tasks of the group `lambda`."""

from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import BATCH, logger, observed
from shardmill.engine.mill import mill
from shardmill.worker.lambda_runner import protect_on_lambda, run_batch

protect_on_lambda()


@observed(BATCH)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    deadline = now_ms() + context.get_remaining_time_in_millis()
    returned = run_batch(mill(), event["Records"], deadline, now_ms())
    extra = {"action": "run-tasks", "records": len(event["Records"]), "returned": len(returned)}
    logger.info("ran tasks", extra=extra)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in returned]}
