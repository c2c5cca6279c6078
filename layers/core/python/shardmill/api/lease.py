"""POST /v1/work:lease, in a function of its own because it waits for tasks."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Body

from shardmill.aws.clock import now_ms
from shardmill.engine.mill import mill
from shardmill.engine.workers.poll import pull
from shardmill.model.worker import LeaseAnswer, LeaseRequest


def lease_work(request: Annotated[LeaseRequest, Body()]) -> LeaseAnswer:
    """Lease up to ten tasks, waiting up to 20 seconds for them."""
    return LeaseAnswer(items=pull(mill(), request, now_ms))
