"""An argument that stands behind JOB and TRIGGER, or alone beside a filter: recompute STEP --job report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

import typer
from typer.models import ArgumentInfo

from shardmill.cli.choice import FILTER, Choice


@dataclass(frozen=True, slots=True)
class LastWord:
    name: str
    metavar: str
    parse: Callable[[str], Any]

    def taken(self, choice: Choice, value: Any) -> tuple[Choice, Any]:
        """The choice without it, and its value, which beside a filter was read in the place of JOB."""
        if choice.filtered and choice.job_name is not None and choice.trigger is None:
            return replace(choice, job_name=None), self.parse(choice.job_name)
        if choice.filtered or value is None:
            raise typer.BadParameter(
                f"give either JOB, TRIGGER and {self.metavar}, or {self.metavar} and {FILTER}"
            )
        return choice, value


def last_word(parameters: Iterable[Parameter]) -> LastWord | None:
    """The one of a command's own parameters that is an argument, if there is one."""
    for each in parameters:
        for info in getattr(each.annotation, "__metadata__", ()):
            if isinstance(info, ArgumentInfo):
                return LastWord(each.name, info.metavar or each.name.upper(), info.parser or str)
    return None
