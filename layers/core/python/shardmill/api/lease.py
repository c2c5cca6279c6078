"""POST /v1/work:lease, in a function of its own because it waits."""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api.resolver import make_app, resolve_with
from shardmill.aws.clock import now_ms
from shardmill.engine.mill import mill
from shardmill.engine.workers.poll import pull
from shardmill.model.worker import LeaseAnswer, LeaseRequest

app = make_app()


@app.post("/v1/work:lease", tags=["work"])
def lease_work(request: Annotated[LeaseRequest, Body()]) -> LeaseAnswer:
    """Lease up to ten tasks, waiting up to 20 seconds for them."""
    return LeaseAnswer(items=pull(mill(), request, now_ms))


def resolve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one event of the HTTP API."""
    return resolve_with(app, event, context)
