"""Delivers notifications about Jobs to the webhooks and SNS topics that their definitions name."""

from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import BATCH, count, logger, observed
from shardmill.engine.mill import mill
from shardmill.engine.notify import deliver
from shardmill.worker.webhook import post


@observed(BATCH)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    failed = deliver(mill(), event["Records"], post, now_ms())
    if failed:
        count(NotificationsRetried=len(failed))
    extra = {"action": "deliver-notifications", "records": len(event["Records"]), "failed": len(failed)}
    logger.info("delivered notifications", extra=extra)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
