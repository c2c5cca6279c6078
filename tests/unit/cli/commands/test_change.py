"""priority."""

import json

import pytest

from support.fakes.api import NOW, FakeApi, Run, job, output_of, page

TIMES = {"createTime": NOW, "updateTime": NOW}

WORKER = {"id": "abcdefgh", "name": "w1", "groups": ["g", "h"], "session": 1, "heartbeatSeconds": 20, **TIMES}

OTHER = {**WORKER, "id": "hgfedcba", "name": "host 17/3"}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/workers", page(WORKER, OTHER))
    api.on("GET", "/v1/workers/abcdefgh", WORKER)
    return api


@pytest.mark.parametrize("number", [10, 0, -5])
def test_priority_is_any_integer(api: FakeApi, run: Run, number: int) -> None:
    api.on("POST", "/v1/jobs/report/t1:priority", job("RUNNING", priority=number))
    expected = output_of(run("priority", "report", "t1", str(number)))
    assert expected == f"report t1 RUNNING priority {number}\n"
    assert api.seen[-1].document == {"priority": number}
    assert json.loads(output_of(run("priority", "report", "t1", str(number), "--json")))["priority"] == number
