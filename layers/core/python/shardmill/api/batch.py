"""POST /v1/jobs:batch: submit many Jobs in one request, with an answer for each."""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from shardmill.api import problems
from shardmill.api.responses import actor, now
from shardmill.aws.clock import new_id
from shardmill.aws.observability import logger
from shardmill.engine.errors import Busy, MillError
from shardmill.engine.jobs.submit import BatchReads, submit
from shardmill.engine.mill import mill
from shardmill.model.actor import Actor
from shardmill.model.base import Model
from shardmill.model.batch import MAX_REQUESTS, BatchAnswer, BatchedJob, BatchItem

TIME_LIMIT_MS = 20_000  # the function ends after 29 s; clients send the rest again


class BatchRequest(Model):
    """JobRequests to submit in the given order."""

    requests: list[Any] = Field(
        min_length=1, max_length=MAX_REQUESTS, description="JobRequests, each with its trigger"
    )


def submit_batch(batch: Annotated[BatchRequest, Body()]) -> BatchAnswer:
    """Submit up to 100 Jobs. Each item has the status of its own request, and its Job or its problem."""
    submitter, end, reads = actor(), now() + TIME_LIMIT_MS, BatchReads()
    return BatchAnswer(items=[_submit(document, submitter, end, reads) for document in batch.requests])


def _submit(document: object, submitter: Actor, end: int, reads: BatchReads) -> BatchItem:
    """Submit one Job; the failure of one request does not stop the others."""
    time = now()
    try:
        if time > end:
            raise Busy("the batch took too long, and this request was not processed; submit it again")
        submitted = submit(mill(), document, submitter, now=time, new_id=new_id, reads=reads)
    except MillError as error:
        return _failed(error)
    except Exception as error:
        known = problems.known_error(error)
        if known is None:
            logger.exception("a request of a batch failed unexpectedly", extra={"action": "submit-batch"})
        return _failed(known or problems.internal_error(""))
    job = submitted.job
    return BatchItem(
        status=202 if submitted.new else 200,
        job=BatchedJob(id=job.id, jid=job.jid, job_name=job.job_name, trigger=job.trigger, state=job.state),
    )


def _failed(error: MillError) -> BatchItem:
    return BatchItem(status=problems.status_of(error).value, problem=problems.problem(error))
