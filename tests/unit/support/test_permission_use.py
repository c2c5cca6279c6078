"""Permissions that no test needed fail a run of all tests, and calls that were not allowed fail every run."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from support import permission_use
from support.aws_rules.grants import WORKER, Grant, Refusal
from support.permission_use import PermissionUse, describe_needless, describe_refused, describe_unused

STATEMENTS = {
    "tick": [{"Action": ["sqs:SendMessage", "sqs:DeleteMessage"]}, {"Action": "s3:GetObject"}],
    WORKER: [{"Action": "sqs:SendMessage"}],
}
SEND: Grant = ("tick", "sqs:SendMessage", 0)
DELETE: Grant = ("tick", "sqs:DeleteMessage", 0)
READ: Grant = ("tick", "s3:GetObject", 1)
OF_WORKER: Grant = (WORKER, "sqs:SendMessage", 0)
ALL = [SEND, DELETE, READ, OF_WORKER]


class Cache(dict[str, Any]):
    """Stands in for pytest's cache, which keeps JSON."""

    def set(self, name: str, value: Any) -> None:
        self[name] = json.loads(json.dumps(value))


@pytest.fixture(autouse=True)
def _template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other permissions, and nothing of what the tests of this process used."""
    monkeypatch.setattr(permission_use, "statements_of_roles", lambda: STATEMENTS)
    monkeypatch.setattr(permission_use, "EXCEPTIONS", {})
    monkeypatch.setattr(permission_use, "used", set())
    monkeypatch.setattr(permission_use, "refused", set())


def run(
    *outputs: dict[str, Any],
    source: str = "TESTPATHS",
    always: bool = False,
    status: pytest.ExitCode = pytest.ExitCode.OK,
    ignore: list[str] | None = None,
    cache: Cache | None = None,
    again: bool = False,
) -> tuple[pytest.ExitCode, list[str]]:
    """A run whose processes handed over `outputs`: its exit status and what it printed."""
    config: Any = SimpleNamespace(
        option=SimpleNamespace(ignore=ignore, ignore_glob=None, collectonly=False),
        args_source=pytest.Config.ArgsSource[source],
        getoption=lambda name, default=None: again if name == "--last-failed" else always,
        cache=cache,
    )
    plugin = PermissionUse(config)
    for output in outputs:
        plugin.pytest_testnodedown(SimpleNamespace(workeroutput=output) if output else SimpleNamespace())
    session: Any = SimpleNamespace(config=config, exitstatus=status)
    plugin.pytest_sessionfinish(session)
    printed: list[str] = []
    reporter: Any = SimpleNamespace(
        section=lambda *args, **kwargs: None, write_line=lambda line, **kwargs: printed.append(line)
    )
    plugin.pytest_terminal_summary(reporter)
    return session.exitstatus, printed


def handed_over(
    used: list[Grant], *, whole: bool = True, refused: list[Refusal] | None = None
) -> dict[str, Any]:
    return {
        "permissions_used": [list(grant) for grant in used],
        "permissions_refused": [list(each) for each in refused or []],
        "whole_collection": whole,
    }


def test_what_the_processes_used_is_taken_together() -> None:
    assert run(handed_over([SEND, DELETE]), handed_over([READ, OF_WORKER])) == (pytest.ExitCode.OK, [])


def test_a_permission_that_no_process_used_fails_the_run_and_says_what_to_do() -> None:
    status, printed = run(handed_over([SEND]), handed_over([READ]))
    assert status == pytest.ExitCode.TESTS_FAILED
    assert printed == [
        "the role of functions/tick may perform sqs:DeleteMessage (its statement 1), but no test needed it: "
        "remove it from template.yaml, or test what needs it",
        "WorkerPolicy may perform sqs:SendMessage (its statement 1), but no test needed it: "
        "remove it from template.yaml, or test what needs it",
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"source": "ARGS"},
        {"source": "INVOCATION_DIR"},
        {"ignore": ["tests/e2e"]},
        {"status": pytest.ExitCode.TESTS_FAILED},
    ],
)
def test_a_run_of_a_part_or_with_failures_reports_nothing(part: dict[str, Any]) -> None:
    status, printed = run(handed_over([SEND]), **part)
    assert (status, printed) == (part.get("status", pytest.ExitCode.OK), [])


def test_a_run_with_deselected_tests_or_a_crashed_process_reports_nothing() -> None:
    assert run(handed_over([SEND]), handed_over([], whole=False)) == (pytest.ExitCode.OK, [])
    assert run(handed_over([SEND]), {}) == (pytest.ExitCode.OK, [])


def test_after_failures_the_run_that_repeats_them_decides() -> None:
    failed, cache = pytest.ExitCode.TESTS_FAILED, Cache()
    assert run(handed_over([SEND, DELETE]), status=failed, cache=cache) == (failed, [])
    status, printed = run(handed_over([READ]), cache=cache, again=True)
    assert (status, len(printed)) == (failed, 1)
    assert printed[0].startswith("WorkerPolicy may perform sqs:SendMessage")
    assert run(handed_over([OF_WORKER]), cache=cache, again=True) == (pytest.ExitCode.OK, [])


def test_a_run_that_repeats_failures_of_a_part_reports_nothing() -> None:
    failed, cache = pytest.ExitCode.TESTS_FAILED, Cache()
    run(handed_over(ALL), cache=cache)
    run(handed_over([SEND]), source="ARGS", status=failed, cache=cache)
    assert run(handed_over([SEND]), cache=cache, again=True) == (pytest.ExitCode.OK, [])


def test_the_option_reports_for_a_part_too() -> None:
    status, printed = run(handed_over([SEND, READ, DELETE], whole=False), source="ARGS", always=True)
    assert (status, len(printed)) == (pytest.ExitCode.TESTS_FAILED, 1)


def test_a_call_that_was_not_allowed_fails_every_run() -> None:
    refused: Refusal = ("tick", "sqs:DeleteQueue", "arn:q")
    status, printed = run(handed_over(ALL, refused=[refused]), source="ARGS")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert printed == [
        "the role of functions/tick may not perform sqs:DeleteQueue on arn:q, which a test needed: "
        "add it to template.yaml"
    ]


def test_roles_of_the_rules_own_tests_are_left_out() -> None:
    assert describe_refused([("send", "sqs:ReceiveMessage", "arn:q")], STATEMENTS) == []


def test_an_exception_covers_a_permission_until_a_test_needs_it() -> None:
    exceptions = {("tick", "s3:GetObject"): "reason"}
    assert describe_unused([SEND, DELETE, OF_WORKER], ALL, exceptions) == []
    assert describe_needless([SEND, DELETE, OF_WORKER], ALL, exceptions) == []
    assert describe_needless(ALL, ALL, exceptions) == [
        "the role of functions/tick may perform s3:GetObject, and a test needed it: "
        "remove it from the exceptions in tests/support/permission_use.py"
    ]
