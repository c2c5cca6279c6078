"""POST /v1/jobs:dry-run: the effect of an action on many Jobs, in one request that changes nothing."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import BaseModel, ValidationError

from shardmill.api import problems
from shardmill.api.access.enforce import check_access
from shardmill.api.responses import actor, now
from shardmill.api.routes import find_route
from shardmill.aws.observability import logger
from shardmill.engine.errors import Busy, MillError, NoSuchPath
from shardmill.model.base import Reason, Request
from shardmill.model.control import requests
from shardmill.model.control.effect import DryRunAnswer, DryRunItem, DryRunRequest, JobId

TIME_LIMIT_MS = 15_000  # the function ends after 29 s


class Deletion(Request):
    """The query parameters of a deletion."""

    full: bool = False


_BODIES: dict[str, type[Request]] = {
    "suspend": requests.Suspension,
    "resume": Reason,
    "start": Reason,
    "kill": requests.Killing,
    "rerun": requests.Rerun,
    "recompute": requests.Recompute,
    "force": requests.Force,
    "priority": requests.Priority,
    "group": requests.Groups,
    "change": requests.Change,
    "delete": Deletion,
}


def dry_run(request: Annotated[DryRunRequest, Body()]) -> DryRunAnswer:
    """Get the effect that an action would have on up to 100 Jobs. Each item has its own effect or problem."""
    body = _body(request)
    end = now() + TIME_LIMIT_MS
    return DryRunAnswer(items=[_try(request.action, job, body, end) for job in request.jobs])


def _body(request: DryRunRequest) -> BaseModel:
    try:
        return _BODIES[request.action].model_validate(request.request)
    except ValidationError as error:
        faults: Any = [{**each, "loc": ("body", "request", *each["loc"])} for each in error.errors()]
        raise problems.not_valid(faults) from None


def _try(action: str, job: JobId, body: BaseModel, end: int) -> DryRunItem:
    """Try the action on one Job through the action's own route, and therefore with the same checks."""
    named = {"job_name": job.job_name, "trigger": job.trigger}
    try:
        if now() > end:
            raise Busy("the dry run took too long, and this job was not processed; ask for fewer jobs")
        return DryRunItem(**named, status=200, effect=_effect(action, job, body))
    except MillError as error:
        return _failed(named, error)
    except Exception as error:
        known = problems.known_error(error)
        if known is None:
            logger.exception("a dry run failed unexpectedly", extra={"action": "dry-run"})
        return _failed(named, known or problems.internal_error(""))


def _effect(action: str, job: JobId, body: BaseModel) -> Any:
    path = f"/v1/jobs/{quote(job.job_name)}/{quote(job.trigger)}"
    deletes = isinstance(body, Deletion)
    route = find_route("DELETE", path) if deletes else find_route("POST", f"{path}:{action}")
    if route is None:
        raise NoSuchPath(f"jobs have no action {action!r}")
    check_access(route, path if deletes else f"{path}:{action}", actor())
    if isinstance(body, Deletion):
        return route.load()(job.job_name, job.trigger, full=body.full, dry_run=True).body
    return route.load()(job.job_name, job.trigger, body, dry_run=True)


def _failed(named: dict[str, str], error: MillError) -> DryRunItem:
    return DryRunItem(**named, status=problems.status_of(error).value, problem=problems.problem(error))
