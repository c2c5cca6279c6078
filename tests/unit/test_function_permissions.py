"""Each function is allowed what its code certainly calls, and nothing that its code cannot reach."""

from collections.abc import Iterable

import pytest

from shardmill.api.routes import ROUTES
from support.aws_rules.permissions import grants
from support.call_graph import CallGraph, Place
from support.paths import PROJECT
from support.permission_use import statements_of_functions
from unit.test_permissions import OTHER_NAMES

pytestmark = pytest.mark.timeout(240)  # the first test reads the whole package
FUNCTIONS = sorted(folder.name for folder in (PROJECT / "functions").iterdir())
BY_AWS_ITSELF = {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
"""What an event source mapping does with the role of its function."""
MAPPED = {"fire", "notify", "runner"}


@pytest.fixture(scope="module")
def graph() -> CallGraph:
    return CallGraph()


def roots(function: str) -> list[Place]:
    """Routes are imported by their names in the table of routes."""
    if function not in ("api", "lease"):
        return []
    wanted = [route for route in ROUTES if (route.module == "lease") == (function == "lease")]
    return [(f"shardmill.api.{route.module}", route.function) for route in wanted]


def actions(operations: Iterable[str]) -> set[str]:
    named = (each.removesuffix("Batch") if each.startswith("sqs:") else each for each in operations)
    return {action for name in named for action in OTHER_NAMES.get(name, [name])}


def allowed(function: str) -> set[str]:
    return {action for owner, action, _ in grants(statements_of_functions()) if owner == function}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_allowed_what_its_code_calls(graph: CallGraph, function: str) -> None:
    called = actions(graph.certain(PROJECT / "functions" / function / "app.py", roots(function)))
    assert called - allowed(function) == set()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_allowed_nothing_that_its_code_cannot_call(graph: CallGraph, function: str) -> None:
    reached = actions(graph.possible(PROJECT / "functions" / function / "app.py", roots(function)))
    by_mapping = BY_AWS_ITSELF if function in MAPPED else set()
    assert allowed(function) - reached - by_mapping == set()


def test_the_graph_finds_calls_through_several_modules(graph: CallGraph) -> None:
    """Ending an execution that failed reaches the state machines through the steps that it releases."""
    entry = PROJECT / "functions/execution_failed/app.py"
    assert {"states:StartExecution", "dynamodb:UpdateItem"} <= graph.certain(entry)
    assert "s3:DeleteObjects" not in graph.certain(entry)
