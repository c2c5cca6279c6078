"""Rules for all commands: usage errors, help, empty lists, the address of the API."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from shardmill.cli.app import app
from support.fakes.api import (
    TOKEN,
    FakeApi,
    Run,
    offline,
    page,
)

JOB = "/v1/jobs/report/t1"


def all_commands() -> list[str]:
    """The names of all commands and subcommands."""

    def names(command: Any, *path: str) -> Iterator[str]:
        for name, subcommand in getattr(command, "commands", {}).items():
            yield " ".join((*path, name))
            yield from names(subcommand, *path, name)

    return list(names(get_command(app)))


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["definitions"], "/v1/definitions"),
        (["jobs"], "/v1/jobs"),
        (["groups"], "/v1/groups"),
        (["workers"], "/v1/workers"),
        (["tasks", "report", "t1", "main"], f"{JOB}/steps/main/tasks"),
        (["dependencies", "report", "t1"], f"{JOB}/dependencies"),
        (["history", "report", "t1"], f"{JOB}/history"),
        (["schedule", "list"], "/v1/schedules"),
        (["schedule", "list", "report"], "/v1/schedules/report"),
        (["schedule", "next", "report", "s"], "/v1/schedules/report/s/next"),
        (["schedule", "backfills", "report", "s"], "/v1/schedules/report/s/backfills"),
    ],
)
def test_empty_list_is_an_empty_json_array(api: FakeApi, run: Run, command: list[str], path: str) -> None:
    api.on("GET", path, page())
    assert json.loads(run(*command, "--json").stdout) == []
    assert len(run(*command).stdout.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit"],
        ["submit", "report", "--param", "novalue"],
        ["submit", "report", "--param", "=v"],
        ["submit", "report", "--param", "a=1", "--param", "a=2"],
        ["submit", "report", "--step-param", "k=v"],
        ["submit", "report", "--step-param", ".k=v"],
        ["submit", "report", "--step-param", "s.k=1", "--step-param", "s.k=2"],
        ["submit", "report", "--timeout", "3"],
        ["submit", "report", "--wait", "--timeout", "-1"],
        ["nonsense"],
        ["jobs", "--nonsense"],
        ["jobs", "--state", "NONSENSE"],
        ["jobs", "--limit", "0"],
        ["logs", "report", "t1", "main", "x"],
        ["logs", "report", "t1", "main", "-1"],
        ["logs", "report", "t1", "main", "0", "--attempt", "0"],
        ["tasks", "report", "t1", "main", "x"],
        ["tasks", "report", "t1", "main", "0", "--state", "FAILED"],
        ["tasks", "report", "t1", "main", "0", "--limit", "1"],
        ["job", "a/b", "t1"],
        ["job", "report", "bad trigger"],
        ["graph", "a.yaml", "--format", "png"],
        ["graph"],
        ["graph", "report", "--jobs"],
        ["job", "report", "t1", "--run", "0"],
        ["tasks", "report", "t1", "main", "--run", "x"],
        ["history", "report"],
        ["recompute", "report", "t1"],
        ["recompute", "report", "t1", "main", "--timeout", "3"],
        ["dependencies", "report"],
        ["dependencies", "report", "bad trigger"],
        ["schedule", "nonsense"],
        ["schedule", "show", "report"],
        ["schedule", "show", "report", "1x"],
        ["schedule", "list", "a/b"],
        ["schedule", "next", "report", "s", "--count", "0"],
        ["schedule", "next", "report", "s", "--count", "1001"],
        ["schedule", "next", "report", "s", "--from", "soon"],
        ["schedule", "fire", "report", "s", "--data-time", "soon"],
        ["schedule", "fire", "report", "s", "--param", "x"],
        ["schedule", "fire", "report", "s", "--timeout", "3"],
        ["schedule", "stop", "report", "s"],
        ["schedule", "stop", "report", "s", "0"],
        ["schedule", "stop", "report", "s", "1000000"],
        ["groups", "add", "g", "--lease-seconds", "1"],
        ["groups", "add", "g", "--kind", "push"],
        ["groups", "add", "g", "--type", "nonsense"],
        ["groups", "show"],
        ["workers", "--status", "AWAY"],
        ["workers", "--busy", "drain", "w1"],
        ["workers", "drain"],
        ["priority", "report", "t1"],
        ["priority", "report", "t1", "high"],
        ["priority", "report", "t1", "1", "--nonsense"],
        ["dev", "--port", "0"],
        ["dev", "--workers", "-1"],
        ["worker", "--slots", "0"],
        ["worker", "--group", "bad name"],
        ["worker", "--name", "x" * 300],
        ["worker", "--work-dir", "/nonexistent"],
        ["worker", "--max-load", "-1"],
        ["worker", "--min-disk", "much"],
        ["worker", "--domain", "x" * 300],
        ["worker", "--log-format", "xml"],
        ["worker", "--metrics-port", "70000"],
    ],
)
def test_invalid_usage_exits_2_without_a_request(arguments: list[str]) -> None:
    result = offline(*arguments, env={"SHARDMILL_URL": "http://127.0.0.1:9", "SHARDMILL_TOKEN": TOKEN})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_url_and_token_come_from_the_environment(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page())
    with api.served() as url:
        result = offline("jobs", "--json", env={"SHARDMILL_URL": url, "SHARDMILL_TOKEN": TOKEN})
    assert result.exit_code == 0
    assert api.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("command", all_commands())
def test_every_command_has_examples_in_its_help(command: str) -> None:
    first, *rest = command.split()
    assert f"\n  {first} " in offline("--help").stdout
    shown = offline(first, *rest, "--help").stdout
    assert f"Examples:\n    shardmill {command}" in shown
    assert "--json" in shown
    assert "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


@pytest.mark.parametrize("group", ["definitions", "schedule", "groups", "workers", "dlq", "tokens"])
def test_summaries_in_lists_of_commands_are_complete(group: str) -> None:
    _, _, summaries = offline(group, "--help").stdout.partition("Commands:\n")
    assert summaries
    assert "..." not in summaries


def test_the_help_lists_each_command_once_with_its_summary() -> None:
    _, _, summaries = offline("--help").stdout.partition("\nStart:\n")
    assert "..." not in summaries
    listed = re.findall(r"^  ([a-z]+) ", summaries, re.MULTILINE)
    assert sorted(listed) == sorted(set(listed)) == sorted({name.split()[0] for name in all_commands()})


def test_url_and_token_options_override_the_environment(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page())
    with api.served() as url:
        elsewhere = {"SHARDMILL_URL": "http://127.0.0.1:9", "SHARDMILL_TOKEN": "other"}
        result = offline("jobs", "--json", "--url", url, "--token", TOKEN, env=elsewhere)
    assert result.exit_code == 0
    assert api.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
