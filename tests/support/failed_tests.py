"""Names of failed tests that a later `--last-failed` run finds, also for tests that xdist kept in a group."""

from __future__ import annotations

import re

import pytest

_GROUP = re.compile(r"@[\w.-]+$")


@pytest.hookimpl(tryfirst=True)  # before the failure is stored
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remove the group that xdist adds to the name: a test is collected without it."""
    if hasattr(report, "node"):  # it comes from another process
        report.nodeid = _GROUP.sub("", report.nodeid)
