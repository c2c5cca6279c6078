"""What the HTTP API rejects, and how: names, preconditions, queries, bodies, internal errors."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.aws.queues import SendRefused
from shardmill.engine import definitions
from shardmill.model.blocks import Block
from shardmill.model.errors import Transient
from shardmill.store.definitions import Definitions, VersionConflict
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Contended, Throttled
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner

STEP = {"steps": [{"stepName": "a"}]}
GONE = "/v1/definitions/gone"


@pytest.mark.parametrize("name", ["%00", "%ff", "y%23z", "a%0A", "%22", "%E2%98%83", "a%5Cb"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_that_nothing_can_have_is_not_found(cloud: Cloud, method: str, name: str) -> None:
    cloud.http("PUT", "/v1/definitions/a", STEP)
    for path in (f"/v1/definitions/{name}", f"/v1/jobs/x/{name}", f"/v1/workers/{name}"):
        answer = cloud.http(method, path, {} if method == "POST" else None)
        assert (answer.status, answer.json["code"]) == (404, "no-such-path")
        assert "allow" not in answer.headers


def test_preconditions_on_missing_definitions(cloud: Cloud) -> None:
    for etag in ("*", '"v1"', '"v0"', "nonsense"):
        answer = cloud.http("PUT", GONE, STEP, headers={"If-Match": etag})
        assert (answer.status, answer.json["code"]) == (412, "precondition-failed")
        assert cloud.http("DELETE", GONE, headers={"If-Match": etag}).status in (404, 412)
    assert cloud.http("GET", GONE).status == 404
    assert cloud.http("PUT", GONE, STEP, headers={"If-None-Match": "*"}).status == 201
    assert cloud.http("PUT", GONE, STEP, headers={"If-Match": "*"}).json["version"] == 2
    assert cloud.http("DELETE", GONE, headers={"If-Match": '"v1"'}).status == 412
    assert cloud.http("DELETE", GONE, headers={"If-Match": "*"}).status == 204
    assert cloud.http("PUT", GONE, STEP, headers={"If-Match": "*"}).status == 412


def test_each_of_many_writers_gets_a_version_of_its_own(cloud: Cloud, faults: Faults) -> None:
    def save(_: int) -> Any:
        return cloud.http("PUT", "/v1/definitions/d", STEP)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(save, range(20)))
    assert sorted(answer.json["version"] for answer in answers) == list(range(1, 21))


def test_who_expects_a_version_has_one_try(cloud: Cloud) -> None:
    cloud.http("PUT", "/v1/definitions/d", STEP)

    def save(_: int) -> int:
        return int(cloud.http("PUT", "/v1/definitions/d", STEP, headers={"If-Match": '"v1"'}).status)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(save, range(8))) == [200] + [412] * 7


def test_a_definition_saved_concurrently_is_busy(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object, **__: object) -> None:
        raise VersionConflict

    monkeypatch.setattr(Definitions, "save", lose)
    monkeypatch.setattr(definitions, "_TRIES", 3)
    answer = cloud.http("PUT", "/v1/definitions/d", STEP)
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (503, "busy", "1")


def test_any_version_of_a_definition_can_be_read(cloud: Cloud) -> None:
    for text in ("one", "two"):
        cloud.http("PUT", "/v1/definitions/d", {**STEP, "description": text})
    for version, text in ((1, "one"), (2, "two")):
        answer = cloud.http("GET", f"/v1/definitions/d?version={version}")
        assert (answer.json["description"], answer.headers["etag"]) == (text, f'"v{version}"')
    missing = cloud.http("GET", "/v1/definitions/d?version=3")
    assert (missing.status, missing.json["code"]) == (404, "definition-not-found")
    assert "version 3" in missing.json["detail"]
    assert cloud.http("GET", "/v1/definitions/d?version=0").status == 422
    cloud.http("DELETE", "/v1/definitions/d")
    assert cloud.http("GET", "/v1/definitions/d?version=1").status == 404


@pytest.mark.parametrize(
    ("method", "path", "pointer"),
    [
        ("GET", "/v1/definitions?limt=3", "/limt"),
        ("GET", "/v1/definitions/d?limit=3", "/limit"),
        ("GET", "/v1/jobs?limit=3&stat=FAILED", "/stat"),
        ("GET", "/v1/jobs/a/b?x=", "/x"),
        ("POST", "/v1/jobs?dry=true", "/dry"),
        ("POST", "/v1/work:lease?max=3", "/max"),
        ("GET", "/v1/health?x=1", "/x"),
    ],
)
def test_unknown_query_parameters_are_rejected(cloud: Cloud, method: str, path: str, pointer: str) -> None:
    answer = cloud.http(method, path, {} if method == "POST" else None)
    assert (answer.status, answer.json["code"]) == (422, "invalid-request")
    found = [(fault["pointer"], fault["code"]) for fault in answer.json["faults"]]
    assert found == [(pointer, "unknown-parameter")]


def test_an_unknown_query_has_a_hint_and_an_unknown_path_stays_one(cloud: Cloud) -> None:
    assert "did you mean 'limit'?" in cloud.http("GET", "/v1/jobs?limt=3").json["faults"][0]["message"]
    assert cloud.http("GET", "/v1/nothing?x=1").status == 404
    assert cloud.http("DELETE", "/v1/jobs?x=1").status == 405
    assert cloud.http("GET", "/v1/jobs?x=1", token=None).status == 401


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        ("/v1/workers", {"name": "w"}, [("/groups", "missing-field")]),
        ("/v1/workers", {"name": "w", "groups": ["g"], "slot": 1}, [("/slot", "unknown-field")]),
        ("/v1/workers", {"name": "w", "groups": "g"}, [("/groups", "bad-type")]),
        ("/v1/workers", {"name": "w", "groups": ["g"], "slots": 0}, [("/slots", "out-of-range")]),
        ("/v1/workers", {"name": "w", "groups": ["1 g"]}, [("/groups/0", "bad-name")]),
        ("/v1/workers", [], [("", "bad-type")]),
        (
            "/v1/work:lease",
            {"workerId": "w", "max": 11, "x": 1},
            [("/max", "out-of-range"), ("/x", "unknown-field")],
        ),
        ("/v1/work:report", {"workerId": "w", "results": [{}]}, None),
        ("/v1/jobs", {"trigger": "t", "x": 1}, [("/jobName", "missing-field"), ("/x", "unknown-field")]),
        ("/v1/jobs", [], [("", "bad-type")]),
    ],
)
def test_faults_of_bodies_are_the_same_on_all_routes(
    cloud: Cloud, path: str, body: Any, faults: list[tuple[str, str]] | None
) -> None:
    answer = cloud.http("POST", path, body)
    assert (answer.status, answer.json["code"]) == (422, "invalid-request")
    found = [(fault["pointer"], fault["code"]) for fault in answer.json["faults"]]
    if faults is None:
        assert {code for _, code in found} == {"missing-field"}
    else:
        assert found == faults


def test_a_body_that_is_not_there_is_missing(cloud: Cloud) -> None:
    for path in ("/v1/workers", "/v1/work:lease"):
        answer = cloud.http("POST", path)
        assert answer.status == 422
        assert [fault["code"] for fault in answer.json["faults"]] == ["missing-field"]


def test_a_group_that_is_not_there_is_a_fault_of_the_definition_s_name(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "workerGroup": "ghost"})
    answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t"})
    assert answer.status == 422
    [fault] = answer.json["faults"]
    assert (fault["pointer"], fault["code"]) == ("/jobName", "unknown-group")
    assert "'b'" in fault["message"]
    assert "PUT /v1/groups/ghost" in fault["message"]


@pytest.mark.parametrize(
    "error",
    [Contended(), Throttled(), BlockChanged(Block(0, 1, {})), SendRefused()],
    ids=lambda error: type(error).__name__,
)
def test_a_transient_error_is_answered_with_503_and_retry_after(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, error: Transient
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Definitions, "page", fail)
    answer = cloud.http("GET", "/v1/definitions")
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (503, "busy", "1")


def test_the_log_of_a_defect_has_the_request_id_of_its_answer(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(Definitions, "find", break_down)
    with caplog.at_level(logging.INFO):
        answer = cloud.http("GET", "/v1/definitions/d")
    assert (answer.status, answer.json["code"]) == (500, "internal-error")
    [line] = [each for each in caplog.records if each.exc_info and each.name.startswith("shardmill")]
    assert line.__dict__["requestId"] == answer.json["requestId"]
    assert answer.json["requestId"]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_openapi_document_names_the_answers(cloud: Cloud) -> None:
    document = cloud.http("GET", "/openapi.json", token=None).json
    successes = {
        (path, method): {status for status in operation["responses"] if status.startswith("2")}
        for path, method, operation in operations(document)
    }
    assert successes["/v1/definitions/{job_name}", "put"] == {"200", "201"}
    assert successes["/v1/definitions/{job_name}", "delete"] == {"204"}
    assert successes["/v1/groups/{name}", "put"] == {"200", "201"}
    assert successes["/v1/jobs", "post"] == {"200", "202"}
    assert successes["/v1/workers", "post"] == {"201"}
    for _, _, operation in operations(document):
        refusals = {s: answer for s, answer in operation["responses"].items() if not s.startswith("2")}
        assert {"422", "default"} <= set(refusals)
        assert ("401" in refusals) == ("security" not in operation)
        assert ("413" in refusals) == ("requestBody" in operation)
        for answer in refusals.values():
            schema = answer["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}


@pytest.mark.parametrize(
    ("method", "path", "template", "body"),
    [
        ("PUT", "/v1/definitions/d", "/v1/definitions/{job_name}", STEP),
        ("PUT", "/v1/definitions/d", "/v1/definitions/{job_name}", {"steps": []}),
        ("GET", "/v1/definitions/d", "/v1/definitions/{job_name}", None),
        ("DELETE", "/v1/definitions/d", "/v1/definitions/{job_name}", None),
        ("POST", "/v1/jobs", "/v1/jobs", {"jobName": "d", "trigger": "t"}),
        ("GET", "/v1/jobs/a/b", "/v1/jobs/{job_name}/{trigger}", None),
        ("PUT", "/v1/groups/g", "/v1/groups/{name}", {}),
        ("DELETE", "/v1/groups/default", "/v1/groups/{name}", None),
        ("POST", "/v1/workers", "/v1/workers", {"name": "w", "groups": ["ghost"]}),
        ("POST", "/v1/workers", "/v1/workers", {"name": "w", "groups": ["default"]}),
        ("POST", "/v1/workers/x:heartbeat", "/v1/workers/{worker_id}:heartbeat", {"session": 1}),
        ("POST", "/v1/work:lease", "/v1/work:lease", {"workerId": "x", "max": 1}),
        ("POST", "/v1/work:report", "/v1/work:report", {"workerId": "x", "results": []}),
    ],
)
def test_every_answer_is_in_the_openapi_document(
    cloud: Cloud, method: str, path: str, template: str, body: Any
) -> None:
    document = cloud.http("GET", "/openapi.json", token=None).json
    listed = document["paths"][template][method.lower()]["responses"]
    raw = json.dumps(body).encode() if body is not None else None
    answers = [cloud.http(method, path, raw, headers={"content-type": "application/json"}) for _ in range(2)]
    answers.append(cloud.http(method, path, raw, headers={"content-type": "application/json"}, token="no"))
    if raw:
        answers.append(cloud.http(method, path, raw, headers={"content-type": "text/plain"}))
        answers.append(cloud.http(method, path, b"{"))
    assert {str(answer.status) for answer in answers} <= set(listed)


@pytest.mark.parametrize("path", ["/v1/definitions/", "/v1/jobs/x/", "/v1/groups/", "/v1/workers/"])
def test_very_long_names_are_not_found(runner: JobRunner, path: str) -> None:
    answer = runner.cloud.http("GET", path + "x" * 4000)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
