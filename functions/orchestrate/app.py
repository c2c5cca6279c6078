"""Called by the state machines: one operation of a Job's or a step's life."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.orchestrate import act


@observed("jobId", jobId="jobId", run="run", step="step", operation="action")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    answer = act(mill(), event, now_ms())
    logger.info("operation done", extra={"action": "orchestrate", "answer": answer})
    return answer
