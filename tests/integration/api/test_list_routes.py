"""Every list of the OpenAPI document has pages: `limit`, `cursor`, each item once, and clear errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from shardmill.api.meta import OPENAPI
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import register

DOCUMENT = json.loads(OPENAPI.read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
PLACES = {"job_name": "orders", "trigger": "t1", "step_name": "a", "schedule_id": "s1"}
AT_LEAST = 3
BOUNDED = (":attempts", ":values", ":cost")
"""Answers about the tasks that the request names, and a sum with its parts."""


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    schema = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    name = schema.get("schema", {}).get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = SCHEMAS.get(name, {})
    return found


LISTS = {
    path: methods["get"]
    for path, methods in DOCUMENT["paths"].items()
    if "get" in methods and {"items", "cursor"} <= _answer(methods["get"]).get("properties", {}).keys()
}


@pytest.fixture(scope="module")
def cloud_with_data() -> Iterator[Cloud]:
    """Items of every kind that can be listed, in a cloud that no test changes."""
    with moto_cloud() as cloud:
        _fill(JobRunner(cloud))
        yield cloud


def _fill(runner: JobRunner) -> None:
    files = FileWorker(runner)
    for name in ("parent", "other"):
        runner.define({"stepName": "a"}, name=name)
    outputs = [{"name": f"{letter}.csv"} for letter in "xyz"]
    step = {"stepName": "a", "sharding": 4, "content": "x", "outputs": outputs}
    waits = [
        {"jobName": name, "window": {"unit": "day", "from": -1, "to": 0}} for name in ("parent", "other")
    ]
    for number in range(AT_LEAST):
        runner.define(step, description=f"version {number}")
        assert runner.cloud.http("PUT", f"/v1/groups/g{number}", {}).status == 201
        register(runner, f"w{number}")
        runner.post("/v1/tokens", {"name": f"n{number}", "scopes": ["read"]}, 201)
        path = f"/v1/schedules/orders/s{number}"
        assert runner.cloud.http("PUT", path, {"cron": "0 1 * * *"}).status == 201
    runner.submit("t1")
    for held in runner.take(4):
        files.end(held, {"x.csv": b"1", "y.csv": b"2", "z.csv": b"3"})
    for trigger in ("t2", "t3"):
        runner.submit(trigger)
    runner.define({"stepName": "a"}, name="waits", dependencies=waits)
    for name in ("waits", "parent"):
        runner.submit("t1", name, dataTime="2026-01-02T00:00:00Z")
    for number in range(AT_LEAST):
        runner.cloud.invoke_async("submit", {"jobName": "unknown", "trigger": f"t{number}"})
    for day in ("01", "02", "03"):
        times = {"times": [f"2026-01-{day}T01:00:00Z"]}
        answer = runner.cloud.http("POST", "/v1/schedules/orders/s1:backfill", times)
        assert answer.status == 202, answer


def _path(path: str) -> str:
    jobs = {"dependencies": "waits", "dependents": "parent"}
    return path.format(**PLACES | {"job_name": jobs.get(path.rpartition("/")[2], "orders")})


def _get(cloud: Cloud, path: str, status: int = 200, **query: Any) -> Any:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    answer = cloud.http("GET", f"{path}?{text}")
    assert answer.status == status, answer
    return answer.json


def test_the_document_has_lists() -> None:
    assert len(LISTS) >= 13


def test_every_answer_with_a_limit_or_items_has_pages() -> None:
    for path, methods in DOCUMENT["paths"].items():
        operation = methods.get("get", {})
        parameters = {each["name"] for each in operation.get("parameters", [])}
        bounded = any(path.endswith(each) for each in BOUNDED)
        if "limit" in parameters or ("items" in _answer(operation).get("properties", {}) and not bounded):
            assert {"limit", "cursor"} <= parameters, path
            assert "cursor" in _answer(operation)["properties"], path


@pytest.mark.parametrize("path", LISTS)
def test_the_document_describes_the_pages_of_a_list(path: str) -> None:
    parameters = {each["name"]: each for each in LISTS[path]["parameters"]}
    assert {"limit", "cursor"} <= parameters.keys()
    assert parameters["limit"]["schema"]["minimum"] == 1
    assert not parameters["cursor"].get("required")
    options = [each["type"] for each in _answer(LISTS[path])["properties"]["cursor"]["anyOf"]]
    assert options == ["string", "null"]


@pytest.mark.parametrize("path", LISTS)
def test_the_pages_of_a_list_have_each_item_once(cloud_with_data: Cloud, path: str) -> None:
    fixed = {"from": "2026-01-01T00:00:00Z"} if path.endswith("/next") else {}
    whole = _get(cloud_with_data, _path(path), limit=100, **fixed)["items"]
    wanted = {"dependencies": 2, "dependents": 1}.get(path.rpartition("/")[2], AT_LEAST)
    assert len(whole) >= wanted
    whole = whole[:10] if fixed else whole
    found: list[Any] = []
    query: dict[str, Any] = dict(fixed)
    for _ in range(len(whole) + 1):
        page = _get(cloud_with_data, _path(path), limit=1, **query)
        assert len(page["items"]) <= 1
        found += page["items"]
        if page["cursor"] is None or len(found) == len(whole):
            break
        query["cursor"] = page["cursor"]
    assert [_identity(each) for each in found] == [_identity(each) for each in whole]
    assert page["cursor"] is None or fixed


def _identity(item: dict[str, Any]) -> dict[str, Any]:
    """An item without the fields that change with time: presigned URLs and ages in seconds."""
    return {
        name: value
        for name, value in item.items()
        if name not in ("url", "idleTime", "serveTime", "updateTime")
    }


@pytest.mark.parametrize("path", LISTS)
def test_a_bad_cursor_is_rejected(cloud_with_data: Cloud, path: str) -> None:
    other = "/v1/groups" if path == "/v1/jobs" else "/v1/jobs"
    foreign = _get(cloud_with_data, other, limit=1)["cursor"]
    for cursor in ("x", "", "W10", foreign, "é"):
        problem = _get(cloud_with_data, _path(path), 422, cursor=cursor)
        assert problem["code"] == "invalid-request"
        [fault] = problem["faults"]
        assert (fault["pointer"], fault["code"]) == ("/cursor", "bad-cursor")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many"])
def test_a_bad_limit_is_rejected(cloud_with_data: Cloud, path: str, limit: str) -> None:
    problem = _get(cloud_with_data, _path(path), 422, limit=limit)
    assert [fault["pointer"] for fault in problem["faults"]] == ["/limit"]


@pytest.mark.parametrize("path", [path for path in LISTS if "{" in path])
def test_a_list_below_an_invalid_name_is_not_found(cloud_with_data: Cloud, path: str) -> None:
    for parameter in re.findall(r"{(\w+)}", path):
        place = path.format(**{**PLACES, parameter: "-0"})
        assert _get(cloud_with_data, place, 404)["code"].endswith("-not-found")


def test_the_document_says_that_a_request_needs_a_trigger(cloud_with_data: Cloud) -> None:
    assert set(SCHEMAS["JobRequest"]["required"]) == {"jobName", "trigger"}
    answer = cloud_with_data.http("POST", "/v1/jobs", {"jobName": "orders"})
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/trigger")
