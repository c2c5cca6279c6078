"""Which methods a path has and which queries they take, read from the OpenAPI document."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OPENAPI = Path(__file__).with_name("openapi.json")
NOT_IN_IT = {"/openapi.json", "/"}
_NAME = r"[-\w.~()'!*:@,;=+&$%<> \[\]{}|^]+"  # what the resolver takes for a name in a path


@dataclass(frozen=True, slots=True)
class _Route:
    pattern: re.Pattern[str]
    queries: dict[str, frozenset[str]]
    """The names of the queries of each method."""


@cache
def _routes() -> list[_Route]:
    paths = json.loads(OPENAPI.read_text())["paths"]
    return [
        _Route(
            re.compile(
                "".join(
                    _NAME if part.startswith("{") else re.escape(part)
                    for part in re.split(r"(\{\w+\})", path)
                )
            ),
            {method.upper(): _queries(operation) for method, operation in operations.items()},
        )
        for path, operations in paths.items()
    ]


def _queries(operation: dict[str, list[dict[str, str]]]) -> frozenset[str]:
    return frozenset(each["name"] for each in operation.get("parameters", []) if each["in"] == "query")


def allowed_methods(path: str) -> list[str]:
    if path in NOT_IN_IT:
        return ["GET"]
    return sorted({m for route in _routes() if route.pattern.fullmatch(path) for m in route.queries})


def known_queries(method: str, path: str) -> frozenset[str] | None:
    """The names of the queries that a method takes; None if there is no such thing."""
    found = [r.queries[method] for r in _routes() if method in r.queries and r.pattern.fullmatch(path)]
    return found[0] if found else None
