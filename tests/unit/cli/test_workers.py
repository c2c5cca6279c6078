"""groups, workers and priority against an API on loopback that answers what the test told it to."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.fakes.api import NOW, FakeApi, Reply, Run, command_line, fine, job, page, problem

TIMES = {"createTime": NOW, "updateTime": NOW}
GROUP = {"id": "g", "name": "g", "kind": "pull", "leaseSeconds": 60, **TIMES}
WORKER = {"id": "abcdefgh", "name": "w1", "groups": ["g", "h"], "session": 1, "heartbeatSeconds": 20, **TIMES}
OTHER = {**WORKER, "id": "hgfedcba", "name": "host 17/3"}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/workers", page(WORKER, OTHER))
    api.on("GET", "/v1/workers/abcdefgh", WORKER)
    return api


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


# Groups


def test_groups_are_listed(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups", page(GROUP))
    assert fine(run("groups")).splitlines()[1].split()[:3] == ["g", "pull", "60"]
    assert json.loads(fine(run("groups", "--json")))[0]["leaseSeconds"] == 60


def test_a_group_is_shown_with_its_workers(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/groups/g", {**GROUP, "types": ["hive", "java"]})
    lines = fine(run("groups", "show", "g")).splitlines()
    assert lines[0] == "group g: pull, lease 60 s, types hive, java"
    assert [line.split()[0] for line in lines[2:]] == ["WORKER", "w1", "host"]
    assert api.seen[-1].query["group"] == "g"
    assert json.loads(fine(run("groups", "show", "g", "--json")))["types"] == ["hive", "java"]


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
def test_only_what_is_given_is_sent_for_a_group(
    api: FakeApi, run: Run, options: list[str], sent: dict[str, Any]
) -> None:
    api.on("PUT", "/v1/groups/g", Reply(GROUP, 201))
    assert fine(run("groups", "add", "g", *options)) == "group g: pull, lease 60 s\n"
    assert api.seen[-1].document == sent
    assert json.loads(fine(run("groups", "add", "g", *options, "--json")))["name"] == "g"


def test_force_is_an_option_here(api: FakeApi, run: Run) -> None:
    needed = "group 'g' is needed by Jobs; wait for them, or delete it with force, and their steps fail"
    api.on("DELETE", "/v1/groups/g", problem(409, "group-in-use", needed))
    assert "wait for them, or remove it with --force, and" in run("groups", "remove", "g").stderr


def test_a_group_is_removed(api: FakeApi, run: Run) -> None:
    api.on("DELETE", "/v1/groups/g", problem(409, "group-needed", "group 'g' is needed"), Reply(None, 204))
    refused = run("groups", "remove", "g")
    assert (refused.exit_code, refused.stderr) == (1, "shardmill: group 'g' is needed\n")
    assert fine(run("groups", "remove", "g", "--force")) == "group g removed\n"
    assert [each.query for each in api.seen] == [{}, {"force": "true"}]
    assert json.loads(fine(run("groups", "remove", "g", "--json"))) == {"name": "g", "removed": True}


@pytest.mark.parametrize("command", [["groups", "--json", "show", "g"], ["workers", "--json", "show", "w1"]])
def test_options_may_stand_before_the_subcommand(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("GET", "/v1/groups/g", GROUP)
    assert json.loads(fine(run(*command)))["name"] in ("g", "w1")


# Workers


def test_workers_are_listed(run: Run) -> None:
    row = fine(run("workers")).splitlines()[1].split()
    assert row == ["w1", "g,h", "ONLINE", "idle", "1", "0", "0", "0", "2026-11-16T02:17:19Z"]
    assert json.loads(fine(run("workers", "--json")))[0]["status"] == 3


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ([], {}),
        (["--group", "g", "--status", "offline"], {"group": "g", "status": "0"}),
        (["--busy", "--app", "java"], {"busy": "true", "app": "java"}),
        (["--idle", "--status", "ONLINE"], {"busy": "false", "status": "3"}),
    ],
)
def test_workers_are_filtered(api: FakeApi, run: Run, options: list[str], query: dict[str, str]) -> None:
    fine(run("workers", *options))
    assert api.seen[-1].query == {**query, "limit": "200"}


def test_a_worker_is_shown(api: FakeApi, run: Run) -> None:
    more = {"user": "bob", "host": "h", "currentWork": ["x_0_1"], "notes": "suspended by bob: dis\x1bk"}
    api.on("GET", "/v1/workers", page({**WORKER, **more, "activity": "suspended", "serveTime": 3700}))
    lines = fine(run("workers", "show", "w1")).splitlines()
    assert lines[0] == "w1 ONLINE suspended"
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:]}
    assert shown["id"] == "abcdefgh (session 1)"
    assert (shown["host"], shown["user"]) == ("h, 1 core", "bob")
    assert shown["uptime"] == "1:01:40, idle for 0.0 s"
    assert (shown["running"], shown["notes"]) == ("x_0_1", "suspended by bob: dis k")
    assert "domain" not in shown
    assert json.loads(fine(run("workers", "show", "w1", "--json")))["currentWork"] == ["x_0_1"]


@pytest.mark.parametrize(
    ("name", "worker"),
    [("w1", WORKER), ("host 17/3", OTHER), ("abcdefgh", WORKER), ("hgfedcba", OTHER)],
)
@pytest.mark.parametrize("verb", ["drain", "suspend", "resume"])
def test_a_worker_is_told_by_name_or_id(
    api: FakeApi, run: Run, verb: str, name: str, worker: dict[str, Any]
) -> None:
    path = f"/v1/workers/{worker['id']}:{verb}"
    api.on("POST", path, {**worker, "status": 1, "activity": "busy", "remainTasks": 3})
    assert fine(run("workers", verb, name)) == f"{worker['name']} DRAINING busy, holds 3 tasks\n"
    assert (api.seen[-1].path, api.seen[-1].document) == (path, {})
    assert json.loads(fine(run("workers", verb, name, "--json")))["remainTasks"] == 3


@pytest.mark.parametrize("verb", ["drain", "suspend"])
def test_a_reason_is_passed_on(api: FakeApi, run: Run, verb: str) -> None:
    api.on("POST", f"/v1/workers/abcdefgh:{verb}", WORKER)
    fine(run("workers", verb, "w1", "--reason", "a disk"))
    assert api.seen[-1].document == {"reason": "a disk"}


def test_a_worker_is_forgotten(api: FakeApi, run: Run) -> None:
    lives = problem(409, "worker-alive", "worker 'w1' is alive")
    api.on("DELETE", "/v1/workers/abcdefgh", lives, Reply(None, 204))
    assert run("workers", "forget", "w1").exit_code == 1
    assert fine(run("workers", "forget", "w1", "--force")) == "worker w1 forgotten\n"
    assert api.seen[-1].query == {"force": "true"}
    told = json.loads(fine(run("workers", "forget", "w1", "--json")))
    assert told == {"id": "abcdefgh", "name": "w1", "forgotten": True}


# Priority


@pytest.mark.parametrize("number", [10, 0, -5])
def test_a_priority_is_any_integer(api: FakeApi, run: Run, number: int) -> None:
    api.on("POST", "/v1/jobs/report/t1:priority", job("RUNNING", priority=number))
    told = fine(run("priority", "report", "t1", str(number)))
    assert told == f"report t1 RUNNING priority {number}\n"
    assert api.seen[-1].document == {"priority": number}
    assert json.loads(fine(run("priority", "report", "t1", str(number), "--json")))["priority"] == number
