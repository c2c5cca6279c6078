"""workers and its subcommands."""

import json
from typing import Any

import pytest

from support.fakes.api import FakeApi, Reply, Run, output_of, page, problem, worker

WORKER = worker()
OTHER = worker("hgfedcba", "host 17/3")


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/workers", page(WORKER, OTHER))
    api.on("GET", "/v1/workers/abcdefgh", WORKER)
    return api


def test_workers_are_listed(run: Run) -> None:
    row = output_of(run("workers")).splitlines()[1].split()
    assert row == ["w1", "g,h", "ONLINE", "idle", "1", "0", "0", "0", "2026-11-16T02:17:19Z"]
    assert json.loads(output_of(run("workers", "--json")))[0]["status"] == 3


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
    output_of(run("workers", *options))
    assert api.requests[-1].query == {**query, "limit": "200"}


def test_worker_is_shown(api: FakeApi, run: Run) -> None:
    more = {"user": "bob", "host": "h", "currentWork": ["x_0_1"], "notes": "suspended by bob: dis\x1bk"}
    api.on("GET", "/v1/workers", page({**WORKER, **more, "activity": "suspended", "serveTime": 3700}))
    lines = output_of(run("workers", "show", "w1")).splitlines()
    assert lines[0] == "w1 ONLINE suspended"
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:]}
    assert shown["id"] == "abcdefgh (session 1)"
    assert (shown["host"], shown["user"]) == ("h, 1 core", "bob")
    assert shown["uptime"] == "1:01:40, idle for 0.0 s"
    assert (shown["running"], shown["notes"]) == ("x_0_1", "suspended by bob: dis k")
    assert "domain" not in shown
    assert json.loads(output_of(run("workers", "show", "w1", "--json")))["currentWork"] == ["x_0_1"]


@pytest.mark.parametrize(
    ("name", "worker"),
    [("w1", WORKER), ("host 17/3", OTHER), ("abcdefgh", WORKER), ("hgfedcba", OTHER)],
)
@pytest.mark.parametrize("verb", ["drain", "suspend", "resume"])
def test_worker_is_addressed_by_name_or_id(
    api: FakeApi, run: Run, verb: str, name: str, worker: dict[str, Any]
) -> None:
    path = f"/v1/workers/{worker['id']}:{verb}"
    api.on("POST", path, {**worker, "status": 1, "activity": "busy", "remainTasks": 3})
    assert output_of(run("workers", verb, name)) == f"{worker['name']} DRAINING busy, holds 3 tasks\n"
    assert (api.requests[-1].path, api.requests[-1].document) == (path, {})
    assert json.loads(output_of(run("workers", verb, name, "--json")))["remainTasks"] == 3


@pytest.mark.parametrize("verb", ["drain", "suspend"])
def test_reason_is_sent(api: FakeApi, run: Run, verb: str) -> None:
    api.on("POST", f"/v1/workers/abcdefgh:{verb}", WORKER)
    output_of(run("workers", verb, "w1", "--reason", "a disk"))
    assert api.requests[-1].document == {"reason": "a disk"}


def test_worker_is_forgotten(api: FakeApi, run: Run) -> None:
    lives = problem(409, "worker-alive", "worker 'w1' is alive")
    api.on("DELETE", "/v1/workers/abcdefgh", lives, Reply(None, 204))
    assert run("workers", "forget", "w1").exit_code == 1
    assert output_of(run("workers", "forget", "w1", "--force")) == "worker w1 forgotten\n"
    assert api.requests[-1].query == {"force": "true"}
    printed = json.loads(output_of(run("workers", "forget", "w1", "--json")))
    assert printed == {"id": "abcdefgh", "name": "w1", "forgotten": True}
