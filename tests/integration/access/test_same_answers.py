"""A limited token gets the same answers whether or not hidden items exist.

Every route that reads is compared, those of the AWE protocol too, so that a count, a cursor or an order
that depends on hidden things is found without a list of them. The routes come from the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.api.routes import ROUTES, Route
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller, Callers
from support.scenarios.job_runner import JobRunner

OWN = {"job_name": "own-report", "trigger": "t1", "step_name": "a", "index": "0", "schedule_id": "s1"}
OWN |= {"number": "1", "name": "default"}
LIMITS = [{"definitions": ["own-*"]}, {"applications": ["finance"]}, {"groups": ["default"]}]
READABLE = [route for route in ROUTES if route.method == "GET" and route.scope == "read"]
QUERIES = ["", "limit=1", "limit=2"]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\"]*")
_AGE = re.compile(r'"(\w*(?:[aA]ge|[tT]ime|[sS]econds|[eE]lapsed|waiting|ms))": ?"?[\d.hms]+"?')

Answers = dict[tuple[str, str], tuple[int, str]]


def paths(values: dict[str, str]) -> Iterator[str]:
    for route in READABLE:
        names = re.findall(r"<(\w+)>", route.path)
        if set(names) <= values.keys():
            path = re.sub(r"<(\w+)>", lambda found: values[found[1]], route.path)
            yield from (f"{path}?{query}" if query else path for query in queries(route))


def queries(route: Route) -> list[str]:
    """A small page shows whether hidden rows take places in it; other routes reject a limit."""
    listed = not route.awe and "limit" in route.query_parameters
    return QUERIES if listed else [route.query]


def read_all(callers: dict[str, Caller], values: dict[str, str]) -> Answers:
    found: Answers = {}
    for name, caller in callers.items():
        for path in paths(values):
            answer = caller("GET", path)
            text = _AGE.sub(r'"\1": 0', _TIME.sub("TIME", without_time(answer.json)))
            found[name, path] = (answer.status, text)
    return found


def without_time(document: Any) -> str:
    if isinstance(document, dict):
        document = {name: each for name, each in document.items() if name != "timestamp"}
    return json.dumps(document, sort_keys=True)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        yield started


@pytest.fixture(scope="module")
def answers(cloud: Cloud) -> tuple[Answers, Answers]:
    """The answers to limited tokens before and after others use the deployment."""
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x"}, name="own-report", appName="finance")
    assert cloud.http("PUT", "/v1/schedules/own-report/s1", {"cron": "0 0 1 1 *"}).status == 201
    values = OWN | {"job_id": runner.submit(name="own-report", dataTime="2026-01-01T00:00:00Z")["id"]}
    values["work_id"] = f"{values['job_id']}_a_0"
    cloud.run_until(lambda: runner.states(name="own-report") == {"a": "READY"}, 20)
    made = Callers(cloud)
    callers = {str(limit): made.with_scopes({"scope": "read", **limit}) for limit in LIMITS}
    read_all(callers, values)  # the first read of a token records its use
    before = read_all(callers, values)
    assert cloud.http("PUT", "/v1/groups/vault", {}).status == 201
    hidden = {"appName": "hr", "workerGroup": "vault"}
    for name in ("a-secret", "p-secret", "z-secret"):
        needs = [{"jobName": "own-report"}] if name == "z-secret" else []
        runner.define({"stepName": "a", "content": "x"}, name=name, dependencies=needs, **hidden)
        assert cloud.http("PUT", f"/v1/schedules/{name}/s1", {"cron": "0 0 1 1 *"}).status == 201
        for trigger in ("t1", "t2"):
            runner.submit(trigger, name, dataTime="2026-01-01T00:00:00Z")
    runner.post("/v1/jobs/a-secret/t2:kill")
    worker = {"name": "mole", "groups": ["vault"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}
    assert cloud.http("POST", "/v1/workers", worker).status == 201
    return before, read_all(callers, values)


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_hidden_items_change_no_answer(answers: tuple[Answers, Answers], limit: dict[str, Any]) -> None:
    before, after = answers
    assert len(before) > 3 * 40
    own = [key for key in before if key[0] == str(limit)]
    assert [(key[1], before[key], after[key]) for key in own if before[key] != after[key]] == []


def test_most_answers_are_not_errors(answers: tuple[Answers, Answers]) -> None:
    """A comparison of errors only would prove nothing."""
    before, _ = answers
    succeeded = [path for (_, path), (status, _) in before.items() if status == 200]
    assert len(succeeded) > 3 * 30
