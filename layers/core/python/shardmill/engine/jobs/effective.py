"""Step types that are bound to worker groups."""

from __future__ import annotations

from shardmill.engine.mill import Mill


def bound_to(mill: Mill) -> dict[str, list[str]]:
    """The groups that each step type is bound to."""
    bound: dict[str, list[str]] = {}
    for group in mill.groups.page():
        for kind in group.types:
            bound.setdefault(kind, []).append(group.name)
    return bound
