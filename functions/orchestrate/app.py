"""Called by the state machines: one action of a Job's or a step's life."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import logger
from shardmill.engine.mill import mill
from shardmill.engine.orchestrate import act


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    answer = act(mill(), event, now_ms())
    logger.info("done", extra={**event, "answer": answer})
    return answer
