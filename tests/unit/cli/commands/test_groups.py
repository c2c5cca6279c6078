"""groups and its subcommands."""

import json
from typing import Any

import pytest

from support.fakes.api import FakeApi, Reply, Run, group, output_of, page, problem, worker

GROUP = group()

WHY = "suspended by bob: a di\x1bsk"

SHOWN = "suspended by bob: a di sk"

WORKER = worker()
OTHER = worker("hgfedcba", "host 17/3")


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/workers", page(WORKER, OTHER))
    api.on("GET", "/v1/workers/abcdefgh", WORKER)
    return api


@pytest.mark.parametrize(
    ("verb", "done", "suspended"), [("suspend", "suspended", True), ("resume", "resumed", False)]
)
def test_suspend_and_resume_all_groups(api: FakeApi, run: Run, verb: str, done: str, suspended: bool) -> None:
    api.on("POST", f"/v1/groups:{verb}", Reply(status=204))
    assert output_of(run("groups", verb, "--all", "--reason", "fire drill")) == f"all groups {done}\n"
    assert api.requests[-1].document == {"reason": "fire drill"}
    assert json.loads(output_of(run("groups", verb, "--all", "--json"))) == {
        "all": True,
        "suspended": suspended,
    }


@pytest.mark.parametrize("verb", ["suspend", "resume"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either the NAME of a group or --all"),
        (["g", "--all"], "give either the NAME of a group or --all"),
        (["a/b"], "is not a valid name"),
        ([""], "is not a valid name"),
    ],
)
def test_suspend_requires_a_name_or_all(
    api: FakeApi, run: Run, verb: str, arguments: list[str], message: str
) -> None:
    refused = run("groups", verb, *arguments)
    assert (refused.exit_code, refused.stdout, api.requests) == (2, "", [])
    assert message in " ".join(refused.stderr.split())


def test_show_reports_a_suspended_group(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups/g", {**GROUP, "suspended": WHY})
    api.on("GET", "/v1/workers", page())
    assert output_of(run("groups", "show", "g")).splitlines()[0] == f"group g: pull, lease 60 s, {SHOWN}"


def test_groups_are_listed(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups", page(GROUP))
    assert output_of(run("groups")).splitlines()[1].split()[:3] == ["g", "pull", "60"]
    assert json.loads(output_of(run("groups", "--json")))[0]["leaseSeconds"] == 60


def test_group_is_shown_with_its_workers(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups/g", {**GROUP, "types": ["hive", "java"]})
    lines = output_of(run("groups", "show", "g")).splitlines()
    assert lines[0] == "group g: pull, lease 60 s, types hive, java"
    assert [line.split()[0] for line in lines[2:]] == ["WORKER", "w1", "host"]
    assert api.requests[-1].query["group"] == "g"
    assert json.loads(output_of(run("groups", "show", "g", "--json")))["types"] == ["hive", "java"]


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ([], {}),
        (["--lease-seconds", "300"], {"leaseSeconds": 300}),
        (["--kind", "lambda"], {"kind": "lambda"}),
        (["--type", "hive", "--type", "java"], {"types": ["hive", "java"]}),
        (["--type", ""], {"types": []}),
    ],
)
def test_add_sends_only_given_settings(
    api: FakeApi, run: Run, options: list[str], sent: dict[str, Any]
) -> None:
    api.on("PUT", "/v1/groups/g", Reply(GROUP, 201))
    assert output_of(run("groups", "add", "g", *options)) == "group g: pull, lease 60 s\n"
    assert api.requests[-1].document == sent
    assert json.loads(output_of(run("groups", "add", "g", *options, "--json")))["name"] == "g"


def test_refused_removal_suggests_force(api: FakeApi, run: Run) -> None:
    needed = (
        "group 'g' is used by Jobs; wait for them to end, or delete it with force, which fails their steps"
    )
    api.on("DELETE", "/v1/groups/g", problem(409, "group-in-use", needed))
    assert "wait for them to end, or remove it with --force, which" in run("groups", "remove", "g").stderr


def test_group_is_removed(api: FakeApi, run: Run) -> None:
    api.on("DELETE", "/v1/groups/g", problem(409, "group-needed", "group 'g' is needed"), Reply(None, 204))
    refused = run("groups", "remove", "g")
    assert (refused.exit_code, refused.stderr) == (1, "shardmill: group 'g' is needed\n")
    assert output_of(run("groups", "remove", "g", "--force")) == "group g removed\n"
    assert [each.query for each in api.requests] == [{}, {"force": "true"}]
    assert json.loads(output_of(run("groups", "remove", "g", "--json"))) == {"name": "g", "removed": True}
