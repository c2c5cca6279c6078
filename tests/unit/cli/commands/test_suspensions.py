"""Suspensions of definitions and groups."""

import json
from typing import Any

import pytest

from support.fakes.api import FakeApi, Run, group, listed, output_of, page, problem, saved

GROUP = group()

WHY = "suspended by bob: a di\x1bsk"

SHOWN = "suspended by bob: a di sk"


@pytest.mark.parametrize(
    ("options", "sent"), [([], {}), (["--reason", "a disk"], {"reason": "a disk"}), (["--reason", ""], {})]
)
@pytest.mark.parametrize(
    ("command", "answer", "expected"),
    [
        (["definitions", "suspend", "report"], saved(suspended=WHY), f"report version 3 {SHOWN}\n"),
        (["definitions", "resume", "report"], saved(), "report version 3 resumed\n"),
        (
            ["groups", "suspend", "g"],
            {**GROUP, "suspended": WHY, "types": ["hive"]},
            f"group g: pull, lease 60 s, types hive, {SHOWN}\n",
        ),
        (["groups", "resume", "g"], GROUP, "group g: pull, lease 60 s\n"),
    ],
)
def test_suspend_and_resume_one(
    api: FakeApi,
    run: Run,
    command: list[str],
    answer: dict[str, Any],
    expected: str,
    options: list[str],
    sent: Any,
) -> None:
    kind, verb, name = command
    path = f"/v1/{kind}/{name}:{verb}"
    api.on("POST", path, answer)
    assert output_of(run(*command, *options)) == expected
    assert json.loads(output_of(run(kind, "--json", verb, name, *options)))["suspended"] == answer.get(
        "suspended"
    )
    assert api.request_lines == [f"POST {path}"] * 2
    assert [each.document for each in api.requests] == [sent] * 2


def test_not_found_exits_3_with_the_command_to_create_it(api: FakeApi, run: Run) -> None:
    missing = "there is no worker group 'g'; create it with PUT /v1/groups/g"
    api.on("POST", "/v1/groups/g:suspend", problem(404, "group-not-found", missing))
    missing = "there is no definition named 'r'; save it with PUT /v1/definitions/r"
    api.on("POST", "/v1/definitions/r:suspend", problem(404, "definition-not-found", missing))
    for command, message in (
        (["groups", "suspend", "g"], "create it with `shardmill groups add g`"),
        (["definitions", "suspend", "r"], "save it with `shardmill define FILE`"),
    ):
        refused = run(*command)
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert message in refused.stderr


def test_lists_show_suspensions(api: FakeApi, run: Run) -> None:
    plain, suspended = listed("a", description="nightly"), listed("b", description="hourly", suspended=WHY)
    api.on("GET", "/v1/definitions", page(plain, suspended, listed("c", suspended=WHY), listed("d")))
    descriptions = [line.partition("  admin  ")[2] for line in output_of(run("definitions")).splitlines()[1:]]
    assert descriptions == ["nightly", f"({SHOWN}) hourly", f"({SHOWN})", "-"]
    assert [each["suspended"] for each in json.loads(output_of(run("definitions", "--json")))] == [
        None,
        WHY,
        WHY,
        None,
    ]
    api.on("GET", "/v1/groups", page(GROUP, {**GROUP, "suspended": WHY}))
    heading, active, suspended = output_of(run("groups")).splitlines()
    assert [line.split()[-1] for line in (heading, active)] == ["SUSPENDED", "-"]
    assert suspended.endswith("  by bob: a di sk")
