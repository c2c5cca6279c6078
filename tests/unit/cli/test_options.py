"""Options shared by commands."""

import json

import pytest

from support.fakes.api import NOW, FakeApi, Run, output_of, page

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


@pytest.mark.parametrize("command", [["groups", "--json", "show", "g"], ["workers", "--json", "show", "w1"]])
def test_options_before_a_subcommand(api: FakeApi, run: Run, command: list[str]) -> None:
    api.on("GET", "/v1/groups/g", GROUP)
    assert json.loads(output_of(run(*command)))["name"] in ("g", "w1")
