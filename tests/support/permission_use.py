"""A pytest plugin: compare what the tests used of the permissions in template.yaml with what it allows.

A call that is not allowed fails every run. A permission that no test needed fails a run of all tests, such as
`make test`, or one with `--check-permissions`. If tests failed in it, the next `--last-failed` run decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.aws_rules.grants import WORKER, Grant, Refusal, described, grants, refused, used
from support.paths import PROJECT

Statements = Mapping[str, list[dict[str, Any]]]

_CACHED = "shardmill/permissions-used"

_ENDS_AT_ONCE = (
    "ends or kills a job that it just started, or a step that it just freed; tested as other functions"
)
_REPORTS = "reports outcomes that close or stop a step; tested with the roles of workers and of the API"
_MISSING_FILE = "finds that an uploaded file is missing when it starts a job; tested as other functions"
_TRANSFERS = "presigned addresses are used by real transfers, in tests/e2e/test_dev_permissions.py"
_TOKENS = ("states:SendTaskFailure", "states:SendTaskSuccess")

_EXCEPTED: dict[str, dict[str, tuple[str, ...]]] = {
    _ENDS_AT_ONCE: {
        "dependency": ("dynamodb:DeleteItem", "sqs:SendMessage", "states:StopExecution", *_TOKENS),
        "execution_failed": (
            *("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"),
            *("sqs:SendMessage", *_TOKENS),
        ),
        "fire": (
            *("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"),
            *_TOKENS,
        ),
        "submit": (
            *("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"),
            *("events:PutEvents", "sqs:SendMessage", *_TOKENS),
        ),
        "tick": ("s3:DeleteObject", "states:SendTaskFailure"),
    },
    _REPORTS: {
        "lease": ("dynamodb:BatchWriteItem", "sqs:SendMessage", *_TOKENS),
        "runner": ("dynamodb:Query", "states:SendTaskFailure"),
    },
    _MISSING_FILE: {
        "dependency": ("s3:ListBucket",),
        "execution_failed": ("s3:ListBucket",),
        "fire": ("s3:ListBucket",),
        "submit": ("s3:GetObject", "s3:ListBucket"),
    },
    _TRANSFERS: {
        "orchestrate": ("s3:GetObject", "s3:ListBucket"),
        "runner": ("s3:GetObject", "s3:ListBucket", "s3:ListBucketMultipartUploads"),
        WORKER: ("s3:ListBucketMultipartUploads",),
    },
}
EXCEPTIONS = {
    (role, action): reason
    for reason, roles in _EXCEPTED.items()
    for role, actions in roles.items()
    for action in actions
}
"""Permissions (role and action) that no test on moto uses, with the reason; the call graph needs each."""


class PermissionUse:
    """In a process of pytest-xdist: hands over what was used. In any other: reports at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._used: set[Grant] = set()
        self._refused: set[Refusal] = set()
        self._again = bool(config.getoption("--last-failed", False))
        self._whole = _selects_all(config) and not self._again
        self._always = bool(config.getoption("--check-permissions"))
        self._found: list[str] = []
        self._notes: list[str] = []

    def pytest_deselected(self) -> None:
        self._whole = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist ended; one that crashed has no output."""
        output = getattr(node, "workeroutput", {})
        self._used |= {tuple(grant) for grant in output.get("permissions_used", [])}  # type: ignore[misc]
        self._refused |= {tuple(each) for each in output.get("permissions_refused", [])}  # type: ignore[misc]
        self._whole &= output.get("whole_collection", False)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["permissions_used"] = sorted(used)
            output["permissions_refused"] = sorted(refused)
            output["whole_collection"] = self._whole
            return
        if session.config.option.collectonly:
            return
        passed = session.exitstatus == pytest.ExitCode.OK
        if self._refused or refused:
            self._found = describe_refused(self._refused | refused, statements_of_roles())
        seen = self._seen(session.config)
        if passed and seen is not None:
            allowed = grants(statements_of_roles())
            self._found += describe_unused(seen, allowed, EXCEPTIONS)
            self._notes = describe_needless(seen, allowed, EXCEPTIONS)
        if self._found and passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _seen(self, config: pytest.Config) -> set[Grant] | None:
        """What all tests used, together with the run before if this one repeats what failed; None: a part."""
        cache = getattr(config, "cache", None)  # absent with -p no:cacheprovider
        seen: set[Grant] | None = self._used | used
        if self._again:
            before = None if cache is None else cache.get(_CACHED, None)
            seen = None if before is None else {*self._used, *used, *map(tuple, before)}
        elif not self._whole:
            seen = None
        if cache is not None:
            cache.set(_CACHED, None if seen is None else sorted(seen))
        return self._used | used if self._always else seen

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found or self._notes:
            terminalreporter.section("permissions in template.yaml")
        for line in self._found:
            terminalreporter.write_line(line, red=True)
        for line in self._notes:
            terminalreporter.write_line(line, yellow=True)


def _selects_all(config: pytest.Config) -> bool:
    """Whether neither paths nor options name a part of the tests; for -k and -m see `pytest_deselected`."""
    option = config.option
    named = config.args_source != pytest.Config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")
    return not (named or option.ignore or option.ignore_glob)


def describe_refused(refusals: Iterable[Refusal], roles: Container[str]) -> list[str]:
    """Calls that a role was not allowed; tests of the rule itself have roles of their own."""
    return [
        f"{described(role)} may not perform {action} on {arn}, which a test needed: add it to template.yaml"
        for role, action, arn in sorted(refusals)
        if role in roles
    ]


def describe_unused(
    seen: Iterable[Grant], allowed: Iterable[Grant], exceptions: Mapping[tuple[str, str], str]
) -> list[str]:
    """The permissions that no test used and that are no exception."""
    left = set(allowed) - set(seen)
    return [
        f"{described(role)} may perform {action} (its statement {number + 1}), but no test needed it: "
        "remove it from template.yaml, or test what needs it"
        for role, action, number in sorted(left)
        if (role, action) not in exceptions
    ]


def describe_needless(
    seen: Iterable[Grant], allowed: Iterable[Grant], exceptions: Mapping[tuple[str, str], str]
) -> list[str]:
    """Exceptions that tests need; they do not fail the run, as it can depend on time what tests call."""
    left = {(role, action) for role, action, _ in set(allowed) - set(seen)}
    return [
        f"{described(role)} may perform {action}, and a test needed it: "
        "remove it from the exceptions in tests/support/permission_use.py"
        for role, action in sorted(set(exceptions) - left)
    ]


def statements_of_roles() -> Statements:
    """The statements of each function, by its folder, and of WorkerPolicy, not resolved, in their order."""
    from shardmill.local.sam_template import load_template  # only where it is needed, to start quickly

    found: dict[str, list[dict[str, Any]]] = {}
    for resource in load_template(PROJECT / "template.yaml")["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function":
            listed = [each for policy in properties.get("Policies", []) for each in policy["Statement"]]
            found[Path(properties["CodeUri"]).name] = listed
        elif resource["Type"] == "AWS::IAM::ManagedPolicy":
            found[WORKER] = properties["PolicyDocument"]["Statement"]
    return found
