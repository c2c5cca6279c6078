"""Submits a Job for an EventBridge rule or `sam local invoke`: a JobRequest, alone or as `detail`."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.aws.clock import new_id, now_ms
from shardmill.aws.observability import EVENT, logger, observed
from shardmill.engine.jobs.submit_event import submit_event
from shardmill.engine.mill import mill
from shardmill.engine.views.jobs import summary


@observed(EVENT)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    submitted = submit_event(mill(), event, context.aws_request_id, now=now_ms(), new_id=new_id)
    if not submitted:
        return {"queuedAgain": True}
    extra = {"action": "submit", "jobId": submitted.job.id, "new": submitted.new}
    logger.info("submitted a job", extra=extra)
    return {"new": submitted.new, "job": summary(submitted.job).model_dump(mode="json")}
