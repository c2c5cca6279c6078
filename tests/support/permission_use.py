"""Collect what every test process used of the functions' permissions, and compare it with template.yaml.

A pytest plugin of runs that include all integration tests: `pytest --check-permissions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from shardmill.local.sam_template import load_template
from support.aws_rules.permissions import Grant, grants, used
from support.paths import PROJECT

NOT_SEEN_BY_THE_TESTS: dict[tuple[str, str], str] = {}
"""Permissions of functions (by folder and action) that no test on moto uses, with the reason."""


class PermissionUse:
    def __init__(self) -> None:
        self.used: set[Grant] = set()
        self.unused: list[str] = []

    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist ended."""
        self.used |= {tuple(grant) for grant in node.workeroutput.get("permissions", [])}  # type: ignore[misc]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["permissions"] = sorted(used)
            return
        self.unused = describe_unused(self.used | used)
        if self.unused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.unused:
            terminalreporter.write_line(line, red=True)


def describe_unused(seen: Iterable[Grant]) -> list[str]:
    """The permissions that no test used and that need no exception, and exceptions that are not needed."""
    allowed = grants(statements_of_functions())
    left = allowed - set(seen)
    excepted = {grant for grant in left if grant[:2] in NOT_SEEN_BY_THE_TESTS}
    found = [
        f"template.yaml allows {action} to functions/{function} (statement {number}), and no test needs it"
        for function, action, number in sorted(left - excepted)
    ]
    needless = set(NOT_SEEN_BY_THE_TESTS) - {grant[:2] for grant in excepted}
    return found + [f"{each} is used by tests; remove the exception" for each in sorted(needless)]


def statements_of_functions() -> dict[str, list[dict[str, Any]]]:
    """The statements of each function, not resolved, in their order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for resource in load_template(PROJECT / "template.yaml")["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = resource["Properties"]
            listed = [each for policy in properties.get("Policies", []) for each in policy["Statement"]]
            found[Path(properties["CodeUri"]).name] = listed
    return found
