"""The routes of the HTTP API: the only table of methods, paths and the functions that answer them.

The OpenAPI document, the 405 answers and the checks of query parameters all derive from this table. A module
of routes is imported when the first request asks for one of its routes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

_PARAMETER = re.compile(r"<(\w+)>")
# The characters that Powertools accepts in a path parameter. The same pattern, so that `re` compiles it once.
_VALUE = r"(?P<\1>[-._~()'!*:@,;=+&$%<> \\[\\]{}|^\\w]+)"
_TAGS = {"dead": "dead-letters", "groups": "workers", "uploads": "jobs", "health": "meta", "sign": "meta"}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    """As Powertools writes it: `/v1/jobs/<job_name>/<trigger>`."""
    module: str
    """The module in `shardmill.api` that has the function."""
    function: str
    scope: str = ""
    """The scope that a token needs."""
    whole: bool = False
    """Concerns the deployment as a whole: a limited scope does not suffice."""
    public: bool = False
    """Needs no token."""
    documented: bool = True
    """Is part of the OpenAPI document."""
    query: str = ""
    """Matches only requests with this query parameter; the AWE protocol distinguishes its calls by
    parameters."""
    idle_status: int = 0
    """The status of its answers to idle AWE clients, which are not logged."""

    @cached_property
    def awe(self) -> bool:
        return is_awe(self.path)

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

    def parameters(self, path: str) -> dict[str, str]:
        """The values of the parameters in a path that matches."""
        found = self._pattern.match(path)
        return found.groupdict() if found else {}

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


def _awe(
    method: str,
    path: str,
    function: str,
    scope: str,
    *,
    query: str = "",
    whole: bool = False,
    idle_status: int = 0,
) -> Route:
    """A route of the AWE protocol, which docs/awe.md describes: OpenAPI cannot describe its flags."""
    module, name = function.rsplit(".", 1)
    return Route(
        method,
        f"/awe{path}",
        f"awe.{module}",
        name,
        scope,
        whole=whole,
        public=not scope,
        documented=False,
        query=query,
        idle_status=idle_status,
    )


def is_awe(path: str) -> bool:
    return path == "/awe" or path.startswith("/awe/")


def normal_path(path: str) -> str:
    """A path of the AWE protocol without repeated and trailing slashes, and below `/awe`.

    For some calls, newer clients replace the whole path of a node store by `/node/...`.
    """
    if path == "/node" or path.startswith("/node/"):
        path = f"/awe{path}"
    return re.sub("/+", "/", path).rstrip("/") if is_awe(path) else path


_DEFINITION = "/v1/definitions/<job_name>"
_JOB = "/v1/jobs/<job_name>/<trigger>"
_STEP = f"{_JOB}/steps/<step_name>"
_SCHEDULE = "/v1/schedules/<job_name>/<schedule_id>"
_GROUP = "/v1/groups/<name>"
_WORKER = "/v1/workers/<worker_id>"
_TOKEN = "/v1/tokens/<token_id>"  # noqa: S105 - a path
_DEAD_LETTER = "/v1/dead-letters/<letter_id>"

# The first path that matches is taken: an action (`:kill`) comes before the resource that it acts on.
ROUTES = (
    Route("GET", "/", "meta", "page", public=True, documented=False),
    Route("GET", "/assets/<digest>/<folder>/<name>", "meta", "page_file", public=True, documented=False),
    Route("GET", "/openapi.json", "meta", "openapi", public=True, documented=False),
    Route("GET", "/v1/health", "meta", "health", public=True),
    Route("GET", "/v1/sign-in", "access.sign_in", "sign_in", public=True),
    Route("GET", "/v1/now", "overview", "now_overview", "read"),
    Route("GET", "/v1/limits", "overview", "read_limits", "read"),
    Route("GET", "/v1/definitions", "definitions", "list_definitions", "read"),
    Route("POST", "/v1/definitions:validate", "definitions", "validate", "define"),
    Route("GET", "/v1/definitions:graph", "definitions", "graph", "read"),
    Route("POST", f"{_DEFINITION}:suspend", "definitions", "suspend", "operate"),
    Route("POST", f"{_DEFINITION}:resume", "definitions", "resume", "operate"),
    Route("GET", f"{_DEFINITION}/runs", "overview", "runs", "read"),
    Route("GET", f"{_DEFINITION}/versions", "definitions", "versions", "read"),
    Route("GET", _DEFINITION, "definitions", "read", "read"),
    Route("PUT", _DEFINITION, "definitions", "save", "define"),
    Route("DELETE", _DEFINITION, "definitions", "delete", "define"),
    Route("GET", "/v1/jobs", "jobs", "list_jobs", "read"),
    Route("POST", "/v1/jobs", "jobs", "submit", "submit"),
    Route("POST", "/v1/jobs:batch", "batch", "submit_batch", "submit"),
    Route("POST", "/v1/jobs:dry-run", "dry_run", "dry_run", "operate"),
    Route("POST", "/v1/uploads", "jobs", "begin_upload", "submit"),
    Route("POST", f"{_JOB}:suspend", "control", "suspend_job", "operate"),
    Route("POST", f"{_JOB}:resume", "control", "resume_job", "operate"),
    Route("POST", f"{_JOB}:start", "control", "start_job", "operate"),
    Route("POST", f"{_JOB}:kill", "control", "kill_job", "operate"),
    Route("POST", f"{_JOB}:rerun", "control", "rerun_job", "operate"),
    Route("POST", f"{_JOB}:recompute", "control", "recompute_job", "operate"),
    Route("POST", f"{_JOB}:force", "control", "force_end", "operate"),
    Route("GET", f"{_JOB}:cost", "overview", "job_cost", "read"),
    Route("GET", f"{_JOB}:explain", "control", "explain_job", "read"),
    Route("POST", f"{_JOB}:priority", "control", "set_priority", "operate"),
    Route("POST", f"{_JOB}:group", "control", "set_groups", "operate"),
    Route("POST", f"{_JOB}:change", "control", "change_job", "operate"),
    Route("GET", _JOB, "jobs", "read", "read"),
    Route("DELETE", _JOB, "jobs", "delete_job", "operate"),
    Route("GET", f"{_JOB}/history", "jobs", "read_history", "read"),
    Route("GET", f"{_JOB}/files", "jobs", "list_files", "read"),
    Route("GET", f"{_JOB}/dependencies", "jobs", "dependencies", "read"),
    Route("GET", f"{_JOB}/dependents", "control", "list_dependents", "read"),
    Route("GET", _STEP, "jobs", "read_step", "read"),
    Route("GET", f"{_STEP}/tasks", "jobs", "list_tasks", "read"),
    Route("GET", f"{_STEP}/tasks:grid", "jobs", "read_grid", "read"),
    Route("GET", f"{_STEP}/tasks:attempts", "jobs", "read_attempts", "read"),
    Route("GET", f"{_STEP}/tasks:values", "jobs", "read_values", "read"),
    Route("GET", f"{_STEP}/tasks/<index>", "jobs", "read_task", "read"),
    Route("GET", f"{_STEP}/tasks/<index>/logs", "jobs", "read_log", "read"),
    Route("GET", "/v1/schedules", "schedules", "list_schedules", "read"),
    Route("GET", "/v1/schedules/<job_name>", "schedules", "list_of_job", "read"),
    Route("POST", f"{_SCHEDULE}:fire", "schedules", "fire_now", "submit"),
    Route("POST", f"{_SCHEDULE}:backfill", "schedules", "start_backfill", "submit"),
    Route("GET", _SCHEDULE, "schedules", "read", "read"),
    Route("PUT", _SCHEDULE, "schedules", "save", "define"),
    Route("DELETE", _SCHEDULE, "schedules", "delete", "define"),
    Route("GET", f"{_SCHEDULE}/next", "schedules", "coming", "read"),
    Route("GET", f"{_SCHEDULE}/backfills", "schedules", "list_backfills", "read"),
    Route("POST", f"{_SCHEDULE}/backfills/<number>:stop", "schedules", "stop_backfill", "operate"),
    Route("GET", f"{_SCHEDULE}/backfills/<number>", "schedules", "read_backfill", "read"),
    Route("GET", "/v1/groups", "groups", "list_groups", "read"),
    Route("POST", "/v1/groups:suspend", "groups", "suspend_all_groups", "operate", whole=True),
    Route("POST", "/v1/groups:resume", "groups", "resume_all_groups", "operate", whole=True),
    Route("POST", f"{_GROUP}:suspend", "groups", "suspend_group", "operate"),
    Route("POST", f"{_GROUP}:resume", "groups", "resume_group", "operate"),
    Route("GET", _GROUP, "groups", "read_group", "read"),
    Route("PUT", _GROUP, "groups", "save_group", "define"),
    Route("DELETE", _GROUP, "groups", "delete_group", "define"),
    Route("GET", "/v1/workers", "workers", "list_workers", "read"),
    Route("POST", "/v1/workers", "workers", "register", "worker"),
    Route("POST", f"{_WORKER}:drain", "workers", "drain_worker", "operate"),
    Route("POST", f"{_WORKER}:suspend", "workers", "suspend_worker", "operate"),
    Route("POST", f"{_WORKER}:resume", "workers", "resume_worker", "operate"),
    Route("POST", f"{_WORKER}:heartbeat", "workers", "heartbeat", "worker"),
    Route("GET", _WORKER, "workers", "read_worker", "read"),
    Route("DELETE", _WORKER, "workers", "forget_worker", "operate"),
    Route("GET", "/v1/dead-letters", "dead_letters", "list_dead_letters", "operate", whole=True),
    Route("POST", f"{_DEAD_LETTER}:redrive", "dead_letters", "redrive", "operate", whole=True),
    Route("GET", _DEAD_LETTER, "dead_letters", "read", "operate", whole=True),
    Route("DELETE", _DEAD_LETTER, "dead_letters", "delete", "operate", whole=True),
    Route("GET", "/v1/tokens", "access.tokens", "list_tokens", "admin", whole=True),
    Route("POST", "/v1/tokens", "access.tokens", "create_token", "admin", whole=True),
    Route("GET", "/v1/tokens/self", "access.tokens", "read_caller", "read"),
    Route("POST", f"{_TOKEN}:rotate", "access.tokens", "rotate_token", "admin", whole=True),
    Route("GET", _TOKEN, "access.tokens", "read_token", "admin", whole=True),
    Route("DELETE", _TOKEN, "access.tokens", "revoke_token", "admin", whole=True),
    Route("POST", "/v1/work:lease", "lease", "lease_work", "worker"),
    Route("POST", "/v1/work:report", "work", "report_work", "worker"),
    Route("POST", "/v1/work:release", "work", "release_work", "worker"),
    Route("POST", "/v1/work:urls", "work", "urls", "worker"),
    Route("POST", "/v1/work:checkpoint", "work", "checkpoint", "worker"),
    _awe("GET", "", "server.describe", ""),
    _awe("POST", "/job", "jobs.submit", "submit"),
    _awe("GET", "/job", "lists.list_jobs", "read"),
    _awe("GET", "/job/<job_id>", "jobs.read", "read"),
    _awe("PUT", "/job/<job_id>", "control.change", "operate"),
    _awe("DELETE", "/job/<job_id>", "control.delete", "operate"),
    _awe("GET", "/work", "work.check_out", "worker", query="client", idle_status=400),
    _awe("GET", "/work", "lists.list_work", "read"),
    _awe("GET", "/work/<work_id>", "work.read_data_token", "worker", query="datatoken"),
    _awe("GET", "/work/<work_id>", "work.read_private_env", "worker", query="privateenv"),
    _awe("GET", "/work/<work_id>", "work.read", "read"),
    _awe("PUT", "/work/<work_id>", "work.report", "worker"),
    _awe("GET", "/client", "lists.list_clients", "read"),
    _awe("PUT", "/client", "awe_clients.change_all", "operate", whole=True),
    _awe("POST", "/client", "awe_clients.register", "worker"),
    _awe("GET", "/client/<client_id>", "awe_clients.beat", "worker", query="heartbeat", idle_status=200),
    _awe("GET", "/client/<client_id>", "awe_clients.read", "read"),
    _awe(
        "PUT",
        "/client/<client_id>",
        "awe_clients.beat_with_work",
        "worker",
        query="heartbeat",
        idle_status=200,
    ),
    _awe("PUT", "/client/<client_id>", "awe_clients.set_subclients", "worker", query="subclients"),
    _awe("PUT", "/client/<client_id>", "awe_clients.change", "operate"),
    _awe("GET", "/cgroup", "groups.list_groups", "read"),
    _awe("POST", "/cgroup/<name>", "groups.create", "admin", whole=True),
    _awe("GET", "/cgroup/<name>", "groups.read", "read"),
    _awe("DELETE", "/cgroup/<name>", "groups.delete", "define"),
    _awe("PUT", "/cgroup/<name>/token", "groups.issue_token", "admin", whole=True),
    _awe("DELETE", "/cgroup/<name>/token", "groups.revoke_token", "admin", whole=True),
    _awe("GET", "/queue", "server.read_queue", "read"),
    _awe("PUT", "/queue", "server.change_queue", "operate", whole=True),
    # Public: the node store accepts data tokens, which its functions check.
    _awe("POST", "/node", "nodes.create", ""),
    _awe("PUT", "/node/<node_id>/index/<index>", "nodes.make_index", ""),
    _awe("GET", "/node/<node_id>", "nodes.read", ""),
    _awe("PUT", "/node/<node_id>", "nodes.update", ""),
    _awe("DELETE", "/node/<node_id>", "nodes.delete", ""),
)


def find_route(method: str, path: str, query: Collection[str] = ()) -> Route | None:
    candidates = (route for route in _at(path) if route.method == method)
    return next((route for route in candidates if not route.query or route.query in query), None)


def allowed_methods(path: str) -> list[str]:
    return sorted({route.method for route in _at(path)})


def _at(path: str) -> Iterator[Route]:
    """All routes of the first path in the table that matches."""
    first = next((route for route in ROUTES if route.matches(path)), None)
    return (route for route in ROUTES if first and route.path == first.path)
