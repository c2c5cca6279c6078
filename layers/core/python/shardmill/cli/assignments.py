"""`name=value` and `step.name=value` on the command line."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def params(given: Iterable[str], option: str = "--param", shape: str = "NAME=VALUE") -> dict[str, str]:
    """Values are texts; a name may be given once."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} must be {shape}", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
        found[name] = value
    return found


def step_params(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """The values by step; the name of a step has no dot, that of a parameter may have some."""
    option = "--step-param"
    by_step: dict[str, list[str]] = {}
    for text in given:
        step, dot, assignment = text.partition(".")
        if not dot or not step or "=" in step:
            raise typer.BadParameter(f"{text!r} must be STEP.NAME=VALUE", param_hint=option)
        by_step.setdefault(step, []).append(assignment)
    return {step: params(assignments, option) for step, assignments in by_step.items()}
