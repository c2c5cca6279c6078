"""The routes of the HTTP API: the only table of methods, paths and the functions that answer them.

The OpenAPI document, the 405 answers and the checks of query parameters all derive from this table. A module
of routes is imported when the first request asks for one of its routes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

_PARAMETER = re.compile(r"<(\w+)>")
# The characters that Powertools accepts in a path parameter. The same pattern, so that `re` compiles it once.
_VALUE = r"(?P<\1>[-._~()'!*:@,;=+&$%<> \\[\\]{}|^\\w]+)"
_TAGS = {"groups": "workers", "uploads": "jobs", "health": "meta"}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    """As Powertools writes it: `/v1/jobs/<job_name>/<trigger>`."""
    module: str
    """The module in `shardmill.api` that has the function."""
    function: str
    public: bool = False
    """Needs no token."""
    documented: bool = True
    """Is part of the OpenAPI document."""

    @cached_property
    def tag(self) -> str:
        area = re.split(r"\W", self.path.removeprefix("/v1/"), maxsplit=1)[0]
        return _TAGS.get(area, area)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(f"^{_PARAMETER.sub(_VALUE, self.path)}$")

    def matches(self, path: str) -> bool:
        if "<" not in self.path:
            return path == self.path
        prefix = self.path[: self.path.index("<")]
        return path.startswith(prefix) and self._pattern.match(path) is not None

    def load(self) -> Callable[..., Any]:
        """Import the function that answers requests."""
        function: Callable[..., Any] = getattr(import_module(f"shardmill.api.{self.module}"), self.function)
        return function

    @cached_property
    def query_parameters(self) -> frozenset[str]:
        from aws_lambda_powertools.event_handler.openapi.dependant import get_dependant

        return frozenset(
            field.alias for field in get_dependant(path=self.path, call=self.load()).query_params
        )


_DEFINITION = "/v1/definitions/<job_name>"
_JOB = "/v1/jobs/<job_name>/<trigger>"
_STEP = f"{_JOB}/steps/<step_name>"
_SCHEDULE = "/v1/schedules/<job_name>/<schedule_id>"
_GROUP = "/v1/groups/<name>"
_WORKER = "/v1/workers/<worker_id>"

# The first path that matches is taken: an action (`:kill`) comes before the resource that it acts on.
ROUTES = (
    Route("GET", "/", "meta", "page", public=True, documented=False),
    Route("GET", "/openapi.json", "meta", "openapi", public=True, documented=False),
    Route("GET", "/v1/health", "meta", "health", public=True),
    Route("GET", "/v1/definitions", "definitions", "list_definitions"),
    Route("POST", "/v1/definitions:validate", "definitions", "validate"),
    Route("GET", "/v1/definitions:graph", "definitions", "graph"),
    Route("POST", f"{_DEFINITION}:suspend", "definitions", "suspend"),
    Route("POST", f"{_DEFINITION}:resume", "definitions", "resume"),
    Route("GET", f"{_DEFINITION}/versions", "definitions", "versions"),
    Route("GET", _DEFINITION, "definitions", "read"),
    Route("PUT", _DEFINITION, "definitions", "save"),
    Route("DELETE", _DEFINITION, "definitions", "delete"),
    Route("GET", "/v1/jobs", "jobs", "list_jobs"),
    Route("POST", "/v1/jobs", "jobs", "submit"),
    Route("POST", "/v1/jobs:batch", "batch", "submit_batch"),
    Route("POST", "/v1/uploads", "jobs", "begin_upload"),
    Route("POST", f"{_JOB}:suspend", "control", "suspend_job"),
    Route("POST", f"{_JOB}:resume", "control", "resume_job"),
    Route("POST", f"{_JOB}:kill", "control", "kill_job"),
    Route("POST", f"{_JOB}:rerun", "control", "rerun_job"),
    Route("POST", f"{_JOB}:recompute", "control", "recompute_job"),
    Route("POST", f"{_JOB}:force", "control", "force_end"),
    Route("GET", f"{_JOB}:explain", "control", "explain_job"),
    Route("POST", f"{_JOB}:priority", "control", "set_priority"),
    Route("POST", f"{_JOB}:group", "control", "set_groups"),
    Route("POST", f"{_JOB}:change", "control", "change_job"),
    Route("GET", _JOB, "jobs", "read"),
    Route("DELETE", _JOB, "jobs", "delete_job"),
    Route("GET", f"{_JOB}/history", "jobs", "read_history"),
    Route("GET", f"{_JOB}/files", "jobs", "list_files"),
    Route("GET", f"{_JOB}/dependencies", "jobs", "dependencies"),
    Route("GET", _STEP, "jobs", "read_step"),
    Route("GET", f"{_STEP}/tasks", "jobs", "list_tasks"),
    Route("GET", f"{_STEP}/tasks/<index>", "jobs", "read_task"),
    Route("GET", f"{_STEP}/tasks/<index>/logs", "jobs", "read_log"),
    Route("GET", "/v1/schedules", "schedules", "list_schedules"),
    Route("GET", "/v1/schedules/<job_name>", "schedules", "list_of_job"),
    Route("POST", f"{_SCHEDULE}:fire", "schedules", "fire_now"),
    Route("POST", f"{_SCHEDULE}:backfill", "schedules", "start_backfill"),
    Route("GET", _SCHEDULE, "schedules", "read"),
    Route("PUT", _SCHEDULE, "schedules", "save"),
    Route("DELETE", _SCHEDULE, "schedules", "delete"),
    Route("GET", f"{_SCHEDULE}/next", "schedules", "coming"),
    Route("GET", f"{_SCHEDULE}/backfills", "schedules", "list_backfills"),
    Route("POST", f"{_SCHEDULE}/backfills/<number>:stop", "schedules", "stop_backfill"),
    Route("GET", f"{_SCHEDULE}/backfills/<number>", "schedules", "read_backfill"),
    Route("GET", "/v1/groups", "groups", "list_groups"),
    Route("POST", "/v1/groups:suspend", "groups", "suspend_all_groups"),
    Route("POST", "/v1/groups:resume", "groups", "resume_all_groups"),
    Route("POST", f"{_GROUP}:suspend", "groups", "suspend_group"),
    Route("POST", f"{_GROUP}:resume", "groups", "resume_group"),
    Route("GET", _GROUP, "groups", "read_group"),
    Route("PUT", _GROUP, "groups", "save_group"),
    Route("DELETE", _GROUP, "groups", "delete_group"),
    Route("GET", "/v1/workers", "workers", "list_workers"),
    Route("POST", "/v1/workers", "workers", "register"),
    Route("POST", f"{_WORKER}:drain", "workers", "drain_worker"),
    Route("POST", f"{_WORKER}:suspend", "workers", "suspend_worker"),
    Route("POST", f"{_WORKER}:resume", "workers", "resume_worker"),
    Route("POST", f"{_WORKER}:heartbeat", "workers", "heartbeat"),
    Route("GET", _WORKER, "workers", "read_worker"),
    Route("DELETE", _WORKER, "workers", "forget_worker"),
    Route("POST", "/v1/work:lease", "lease", "lease_work"),
    Route("POST", "/v1/work:report", "work", "report_work"),
    Route("POST", "/v1/work:release", "work", "release_work"),
    Route("POST", "/v1/work:urls", "work", "urls"),
)


def find_route(method: str, path: str) -> Route | None:
    return next((route for route in _at(path) if route.method == method), None)


def allowed_methods(path: str) -> list[str]:
    return sorted(route.method for route in _at(path))


def _at(path: str) -> Iterator[Route]:
    """All routes of the first path in the table that matches."""
    first = next((route for route in ROUTES if route.matches(path)), None)
    return (route for route in ROUTES if first and route.path == first.path)
