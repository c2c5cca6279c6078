"""docs/operations.md lists every log action and metric, and nothing else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardmill.worker import metrics as worker_metrics
from support.paths import PROJECT

PAGE = (PROJECT / "docs/operations.md").read_text()
CORE = PROJECT / "layers/core/python/shardmill"
FUNCTIONS = [PROJECT / "functions", CORE / "api", CORE / "aws", CORE / "engine", CORE / "store"]
WORKER = [CORE / "worker"]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def listed(heading: str) -> set[str]:
    """The first column of the table under a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    names = re.findall(r"(?m)^\| `([^`]+)` \|", section)
    assert len(names) == len(re.findall(r"(?m)^\| `", section)), "a row names several"
    assert len(names) == len(set(names))
    return set(names)


def trees(folders: list[Path]) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path, ast.parse(path.read_text())


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def action_values(tree: ast.AST) -> Iterator[ast.expr]:
    """The values of the key `action` in the dictionaries of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "action":
                    yield value


def actions(tree: ast.AST) -> Iterator[str]:
    yield from (str(value.value) for value in action_values(tree) if isinstance(value, ast.Constant))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "_best_effort":
            yield from (str(value.value) for value in node.args if isinstance(value, ast.Constant))


def computed_actions(path: Path, tree: ast.AST) -> Iterator[str]:
    """The actions that are not literals, which the comparison with the page cannot see."""
    for value in action_values(tree):
        if not isinstance(value, ast.Constant):
            yield f"{path.name}: {ast.unparse(value)}"


def metrics(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ("count", "measure"):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg and keyword.arg[0].isupper())


def test_every_action_of_the_functions_is_listed_and_every_listed_one_is_used() -> None:
    used = {action for _, tree in trees(FUNCTIONS) for action in actions(tree)}
    assert used == listed("Log actions of the functions")


def test_every_action_of_a_worker_is_listed_and_every_listed_one_is_used() -> None:
    used = {action for _, tree in trees(WORKER) for action in actions(tree)}
    assert used == listed("Log actions of workers")


def test_every_action_is_a_literal_that_the_comparison_sees() -> None:
    """Except in `_best_effort` of the queues, whose calls name the action."""
    found = [each for path, tree in trees(FUNCTIONS + WORKER) for each in computed_actions(path, tree)]
    assert found == ["queues.py: action"]


def test_every_metric_is_listed_and_every_listed_one_is_used() -> None:
    used = {metric for _, tree in trees(FUNCTIONS) for metric in metrics(tree)}
    assert used == listed("Metrics of the functions")


def test_every_metric_of_a_worker_is_listed_and_every_listed_one_is_served() -> None:
    served = re.findall(r"(?m)^# TYPE shardmill_worker_(\w+) ", worker_metrics.text({}))
    assert set(served) == listed("Metrics of a worker")


def lines_without_extra(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        by = node.func.value
        if isinstance(by, ast.Name) and by.id in ("logger", "log") and node.func.attr in LEVELS:
            if not any(keyword.arg == "extra" for keyword in node.keywords):
                yield node.lineno


def test_every_log_line_has_an_action() -> None:
    assert [
        (str(path), line) for path, tree in trees(FUNCTIONS + WORKER) for line in lines_without_extra(tree)
    ] == []


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "functions").glob("*/app.py")), ids=lambda p: p.parent.name
)
def test_every_handler_has_the_same_decorator(path: Path) -> None:
    [handler] = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "handler"
    ]
    outermost = handler.decorator_list[0]
    assert isinstance(outermost, ast.Call)
    assert called(outermost) == "observed"
