"""Helpers of the routes: the actor, the time, ETags and common responses."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from pydantic import BaseModel

from shardmill.api.request_checks import actor_of
from shardmill.aws.clock import now_ms
from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import PreconditionFailed
from shardmill.engine.mill import mill
from shardmill.model.actor import Actor
from shardmill.model.base import Reason
from shardmill.model.job import Job
from shardmill.store.definitions import Expected

JSON = "application/json"
MAX_RESPONSE_BYTES = 5_000_000  # a Lambda response is at most 6 MB
_ETAG = re.compile(r'"v([1-9]\d{0,8})"')

ReasonBody = Annotated[Reason, Body()]
NO_REASON = Reason()
DryRun = Annotated[
    bool, Query(alias="dryRun", description="only return the effect of the action; change nothing")
]


_router = APIGatewayHttpRouter()


def current_event() -> APIGatewayProxyEventV2:
    """The event that the resolver is answering."""
    return _router.current_event


def actor() -> Actor:
    return actor_of(current_event().raw_event)


def visible(scope: str = "read") -> Visible:
    """The filter for resources that the caller may see, or use in another scope."""
    return Visible(mill(), actor(), scope)


def source_ip() -> str:
    """The address that the request came from, as API Gateway saw it."""
    context: dict[str, Any] = current_event().raw_event.get("requestContext", {})
    return str(context.get("http", {}).get("sourceIp", ""))


def now() -> int:
    return now_ms()


def no_content() -> Response[Any]:
    return Response(status_code=204, content_type=JSON, body=None)


def response_size(item: BaseModel) -> int:
    """Size of an item in a Lambda response, whose body is JSON inside a JSON string."""
    return len(json.dumps(item.model_dump_json(ensure_ascii=True)))


def job_response(job: Job) -> Job:
    """Return a Job that fits into a response; the steps of a very large one have no details."""
    if response_size(job) > MAX_RESPONSE_BYTES:
        for step in job.steps:
            step.params, step.command = {}, None
            step.inputs, step.outputs, step.predata = [], [], []
    return job


def etag(version: int) -> str:
    return f'"v{version}"'


def expected_version(if_match: str | None, if_none_match: str | None) -> Expected:
    """The version that the preconditions of a request require."""
    if if_none_match == "*":
        return 0
    if if_none_match is not None:
        raise PreconditionFailed(f"If-None-Match {if_none_match[:64]!r} must be *")
    if if_match is None:
        return None
    if if_match == "*":
        return "any"
    match = _ETAG.fullmatch(if_match)
    if not match:
        raise PreconditionFailed(f"If-Match {if_match!r} is not an ETag of this API")
    return int(match[1])
