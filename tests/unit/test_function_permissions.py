"""Functions and workers have permissions for the calls of their code, and for no other calls."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from shardmill.api.routes import ROUTES
from support.aws_rules.grants import WORKER, grants
from support.call_graph import PACKAGE, CallGraph, Place
from support.paths import PROJECT
from support.permission_use import EXCEPTIONS, statements_of_roles
from unit.test_permissions import OTHER_NAMES

pytestmark = pytest.mark.timeout(240)  # the first test reads the whole package
FUNCTIONS = sorted(folder.name for folder in (PROJECT / "functions").iterdir())
ROLES = [*FUNCTIONS, WORKER]
BY_AWS_ITSELF = {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
"""What an event source mapping does with the role of its function."""
MAPPED = {"fire", "notify", "runner"}


@pytest.fixture(scope="module")
def graph() -> CallGraph:
    return CallGraph()


WORKER_PARTS = {
    "worker.transport.engine": "EngineFileUrls.",
    "worker.transport.lanes": "Lanes.",
    "worker.logs": "BucketLogs.",
    "worker.run": "run_worker",
    "worker.task.lambda_task": "invoke",
}
"""What a worker with a DirectTransport runs and the graph does not see: it is behind protocols and tables."""


def entry(role: str) -> Path:
    return PACKAGE / "worker/transport/direct.py" if role == WORKER else PROJECT / f"functions/{role}/app.py"


def roots(graph: CallGraph, role: str) -> list[Place]:
    """Routes are imported by their names in the table of routes."""
    if role == WORKER:
        modules = {f"shardmill.{name}": start for name, start in WORKER_PARTS.items()}
        found = [(name, each) for name in modules for each in graph.modules[name].functions]
        return [(name, each) for name, each in found if each.startswith(modules[name])]
    if role == "runner":
        functions = graph.modules["shardmill.worker.transport.engine"].functions
        return [("shardmill.worker.transport.engine", each) for each in functions]
    if role not in ("api", "lease"):
        return []
    wanted = [route for route in ROUTES if (route.module == "lease") == (role == "lease")]
    return [(f"shardmill.api.{route.module}", route.function) for route in wanted]


def actions(operations: Iterable[str]) -> set[str]:
    named = (each.removesuffix("Batch") if each.startswith("sqs:") else each for each in operations)
    return {action for name in named for action in OTHER_NAMES.get(name, [name])}


def allowed(role: str) -> set[str]:
    return {action for owner, action, _ in grants(statements_of_roles()) if owner == role}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_allowed_what_its_code_calls(graph: CallGraph, role: str) -> None:
    called = actions(graph.certain(entry(role), roots(graph, role)))
    assert called - allowed(role) == set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_allowed_nothing_that_its_code_cannot_call(graph: CallGraph, role: str) -> None:
    reached = actions(graph.possible(entry(role), roots(graph, role)))
    by_mapping = BY_AWS_ITSELF if role in MAPPED else set()
    assert allowed(role) - reached - by_mapping == set()


def test_permissions_that_no_test_uses_are_needed_by_the_code(graph: CallGraph) -> None:
    """An exception from the comparison with recorded calls is a permission that the code needs."""
    for role in {role for role, _ in EXCEPTIONS}:
        excepted = {action for owner, action in EXCEPTIONS if owner == role}
        assert excepted <= allowed(role), role
        assert excepted <= actions(graph.certain(entry(role), roots(graph, role))), role


def test_the_graph_finds_calls_through_several_modules(graph: CallGraph) -> None:
    """Ending an execution that failed reaches the state machines through the steps that it releases."""
    called = graph.certain(entry("execution_failed"))
    assert {"states:StartExecution", "dynamodb:UpdateItem"} <= called
    assert "s3:DeleteObjects" not in called
