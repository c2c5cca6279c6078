"""Check every request: does the token have the scope of the route, for the resource in the path?

The functions of the routes check the items of lists, and names in a body.
"""

from __future__ import annotations

from shardmill.api.routes import Route
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import (
    DefinitionNotFound,
    GroupNotFound,
    JobNotFound,
    MillError,
    ScheduleNotFound,
)
from shardmill.engine.mill import Mill, mill
from shardmill.engine.workers.ownership import unknown_worker
from shardmill.model.access.grants import Everything
from shardmill.model.actor import Actor


def check_access(route: Route, path: str, actor: Actor) -> None:
    """Raise Forbidden if the token lacks the scope, or NotFound if it may not see the resource in the path.

    Resources that the token may not read are reported as missing.
    """
    if route.public:
        return
    if not actor.has(route.scope):
        raise _forbidden(route)
    if not actor.limited(route.scope):
        return
    if route.whole:
        if not actor.may(route.scope, Everything()):
            raise Forbidden(f"this needs the scope {route.scope!r} without limits")
        return
    parameters = route.parameters(path)
    # The functions check lists, bodies and owners of workers; AWE functions also check the ids of the
    # protocol.
    if not parameters or route.scope == "worker" or route.awe:
        return
    if _covers(mill(), route, actor, route.scope, parameters):
        return
    creates = route.method == "PUT" and "schedule_id" not in parameters
    if creates or (actor.has("read") and _covers(mill(), route, actor, "read", parameters)):
        raise _forbidden(route)
    raise _not_found(parameters)


def _forbidden(route: Route) -> Forbidden:
    return Forbidden(f"the token is valid, but this needs the scope {route.scope!r} for it")


def _covers(mill: Mill, route: Route, actor: Actor, scope: str, parameters: dict[str, str]) -> bool:
    visible = Visible(mill, actor, scope)
    job_name = parameters.get("job_name")
    if job_name is not None and "trigger" in parameters:
        return _covers_job(mill, visible, actor, scope, job_name, parameters["trigger"])
    if job_name is not None:
        return _covers_definition(mill, visible, actor, scope, job_name, route)
    if "worker_id" in parameters:
        worker = mill.workers.get(parameters["worker_id"])
        return worker is not None and visible.groups(worker.groups)
    return visible.groups([parameters["name"]])


def _covers_job(mill: Mill, visible: Visible, actor: Actor, scope: str, job_name: str, trigger: str) -> bool:
    if not actor.may_name(scope, job_name):
        return False
    if not actor.needs_rows(scope):
        return True
    job = mill.jobs.find(job_name, trigger)
    return job is not None and visible.job(job)


def _covers_definition(
    mill: Mill, visible: Visible, actor: Actor, scope: str, job_name: str, route: Route
) -> bool:
    if visible.definition(job_name):
        return True
    # The first version of a definition: its document is checked when it is saved.
    creates = route.function == "save" and route.module == "definitions"
    return creates and actor.may_name(scope, job_name) and not mill.definitions.heads([job_name])


def _not_found(parameters: dict[str, str]) -> MillError:
    job_name = parameters.get("job_name", "")
    if "trigger" in parameters:
        return JobNotFound(job_name, parameters["trigger"])
    if "schedule_id" in parameters:
        return ScheduleNotFound(job_name, parameters["schedule_id"])
    if job_name:
        return DefinitionNotFound(job_name)
    if "worker_id" in parameters:
        return unknown_worker(parameters["worker_id"])
    return GroupNotFound(f"there is no worker group {parameters['name']!r}")
