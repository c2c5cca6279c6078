"""Fires schedules that were due together, more than the tick alone could."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id
from shardmill.aws.observe import logger
from shardmill.engine.fire import fire_listed
from shardmill.engine.mill import mill

processor = BatchProcessor(event_type=EventType.SQS)


def fire(record: SQSRecord) -> None:
    fired = fire_listed(mill(), record.json_body, new_id)
    logger.info("fired", extra={"action": "fire", **fired})


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    return process_partial_response(event=event, record_handler=fire, processor=processor, context=context)
