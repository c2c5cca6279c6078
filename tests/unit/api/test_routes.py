"""The table of routes: each path finds its own route, and the 405 answers and query checks derive from it."""

import re

import pytest

from shardmill.api import routes
from shardmill.api.app import app_of_module
from shardmill.api.routes import ROUTES, Route


def example(route: Route) -> str:
    return re.sub(r"<\w+>", "x1", route.path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_path_finds_its_own_route(route: Route) -> None:
    assert routes.find_route(route.method, example(route), {route.query} - {""}) is route
    assert route.method in routes.allowed_methods(example(route))
    assert callable(route.load())


def test_no_route_is_listed_twice() -> None:
    assert len({(route.method, route.path, route.query) for route in ROUTES}) == len(ROUTES)
    assert len({(route.module, route.function) for route in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/jobs", ["GET", "POST"]),
        ("/v1/jobs/a/b", ["DELETE", "GET"]),
        ("/v1/jobs/a/b:kill", ["POST"]),
        ("/v1/jobs/a/b:explain", ["GET"]),
        ("/v1/schedules/a/b:fire", ["POST"]),
        ("/v1/work:lease", ["POST"]),
        ("/", ["GET"]),
        ("/v1/jobs/a/b/c", []),
        ("/v1/jobs/", []),
    ],
)
def test_allowed_methods_are_those_of_the_first_path_that_matches(path: str, allowed: list[str]) -> None:
    assert routes.allowed_methods(path) == allowed


def test_query_parameters_are_those_of_the_function() -> None:
    found = routes.find_route("GET", "/v1/definitions")
    assert found is not None
    assert found.query_parameters == {"limit", "cursor"}
    found = routes.find_route("GET", "/v1/schedules/a/b/next")
    assert found is not None
    assert "from" in found.query_parameters, "the alias, not the name of the Python parameter"


@pytest.mark.parametrize("module", sorted({route.module for route in ROUTES if not route.awe}))
def test_a_module_has_a_resolver_of_its_routes(module: str) -> None:
    assert app_of_module(module) is app_of_module(module)


def test_slashes_count_except_in_the_awe_protocol() -> None:
    assert routes.normal_path("/awe") == routes.normal_path("/awe/") == routes.normal_path("/awe//") == "/awe"
    assert routes.normal_path("/awe//job//x/") == "/awe/job/x"
    assert routes.normal_path("/v1/jobs/") == "/v1/jobs/"
    assert routes.normal_path("/awesome/") == "/awesome/"
