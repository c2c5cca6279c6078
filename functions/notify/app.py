"""Tells the webhooks and topics that a definition names what became of a Job."""

from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import now_ms
from shardmill.aws.observability import logger
from shardmill.engine.mill import mill
from shardmill.engine.notify import deliver
from shardmill.worker.webhook import post


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    kept = deliver(mill(), event["Records"], post, now_ms())
    logger.info("notified", extra={"action": "notify", "records": len(event["Records"]), "kept": len(kept)})
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}
