"""What policies allow, and what the tests of this process used of it.

Every test run imports this, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WORKER = "worker"
"""The role of a worker that uses AWS directly; all other roles are those of functions, by their folders."""

Grant = tuple[str, str, int]
"""A role, an action that it is allowed, and the number of the statement that allows it."""
Refusal = tuple[str, str, str]
"""A role, an action that it is not allowed, and the ARN that it wanted to act on."""

used: set[Grant] = set()
refused: set[Refusal] = set()


def grants(statements: Mapping[str, Sequence[Mapping[str, Any]]]) -> set[Grant]:
    """Everything that the policies of the roles allow."""
    return {
        (role, action, number)
        for role, given in statements.items()
        for number, statement in enumerate(given)
        for action in listed(statement["Action"])
    }


def described(role: str) -> str:
    return "WorkerPolicy" if role == WORKER else f"the role of functions/{role}"


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
