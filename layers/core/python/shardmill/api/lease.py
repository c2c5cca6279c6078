"""POST /v1/work:lease, in a function of its own because it waits for tasks."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Body

from shardmill.api.responses import actor
from shardmill.aws.clock import now_ms
from shardmill.engine.access.receipts import sign
from shardmill.engine.mill import mill
from shardmill.engine.workers.ownership import check_owner
from shardmill.engine.workers.poll import Pulled, pull
from shardmill.model.worker import LeaseAnswer, LeaseRequest


def lease_work(request: Annotated[LeaseRequest, Body()]) -> LeaseAnswer:
    """Lease the tasks of the messages that the worker received, or up to ten tasks, waiting up to 20 s."""
    check_owner(mill(), actor(), request.worker_id, now_ms())
    return signed_answer(pull(mill(), request, now_ms), request.worker_id)


def signed_answer(pulled: Pulled, worker_id: str) -> LeaseAnswer:
    """The answer to a lease, with receipts that only this worker can use."""
    key = mill().settings.token_key
    for lease in pulled.leases:
        lease.receipt = sign(lease.receipt, lease.task_id, worker_id, key)
    return LeaseAnswer(items=pulled.leases, paused=pulled.paused, lanes=pulled.lanes)
