"""Errors of the HTTP API: invalid names, preconditions, queries and bodies, and internal errors."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.aws.queues import SendRefused
from shardmill.engine import definitions
from shardmill.engine.errors import PreconditionFailed
from shardmill.model.actor import Actor
from shardmill.model.blocks import Block
from shardmill.model.errors import Transient
from shardmill.store.definitions import Definitions, VersionConflict
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Contended, Throttled
from support.aws_rules.faults import Faults, How
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner

STEP = {"steps": [{"stepName": "a"}]}
MISSING = "/v1/definitions/missing"


@pytest.mark.parametrize("name", ["%00", "%ff", "y%23z", "a%0A", "%22", "%E2%98%83", "a%5Cb"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_invalid_name_in_a_path_is_not_found(cloud: Cloud, method: str, name: str) -> None:
    cloud.http("PUT", "/v1/definitions/a", STEP)
    for path in (f"/v1/definitions/{name}", f"/v1/jobs/x/{name}", f"/v1/workers/{name}"):
        response = cloud.http(method, path, {} if method == "POST" else None)
        assert (response.status, response.json["code"]) == (404, "no-such-path")
        assert "allow" not in response.headers


def test_preconditions_on_missing_definitions_are_checked(cloud: Cloud) -> None:
    for etag in ("*", '"v1"', '"v0"', "nonsense"):
        response = cloud.http("PUT", MISSING, STEP, headers={"If-Match": etag})
        assert (response.status, response.json["code"]) == (412, "precondition-failed")
        assert cloud.http("DELETE", MISSING, headers={"If-Match": etag}).status in (404, 412)
    assert cloud.http("GET", MISSING).status == 404
    assert cloud.http("PUT", MISSING, STEP, headers={"If-None-Match": "*"}).status == 201
    assert cloud.http("PUT", MISSING, STEP, headers={"If-Match": "*"}).json["version"] == 2
    assert cloud.http("DELETE", MISSING, headers={"If-Match": '"v1"'}).status == 412
    assert cloud.http("DELETE", MISSING, headers={"If-Match": "*"}).status == 204
    assert cloud.http("PUT", MISSING, STEP, headers={"If-Match": "*"}).status == 412


def test_concurrent_saves_get_distinct_versions(cloud: Cloud, faults: Faults) -> None:
    def save(_: int) -> Any:
        return cloud.http("PUT", "/v1/definitions/d", STEP)

    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(save, range(20)))
    assert sorted(response.json["version"] for response in responses) == list(range(1, 21))


def test_only_one_of_concurrent_saves_with_the_same_if_match_succeeds(runner: JobRunner) -> None:
    """Not through the API's handler: a Lambda process serves one request at a time."""
    runner.cloud.http("PUT", "/v1/definitions/d", STEP)

    def save(_: int) -> int:
        try:
            definitions.save(runner.mill, "d", STEP, Actor("me"), now=1, expected=1)
        except PreconditionFailed:
            return 412
        return 200

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(save, range(8))) == [200] + [412] * 7


def test_a_save_that_keeps_conflicting_returns_busy(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: object, **__: object) -> None:
        raise VersionConflict

    monkeypatch.setattr(Definitions, "save", conflict)
    monkeypatch.setattr(definitions, "_TRIES", 3)
    response = cloud.http("PUT", "/v1/definitions/d", STEP)
    assert (response.status, response.json["code"], response.headers["retry-after"]) == (503, "busy", "1")


def test_any_version_of_a_definition_can_be_read(cloud: Cloud) -> None:
    for text in ("one", "two"):
        cloud.http("PUT", "/v1/definitions/d", {**STEP, "description": text})
    for version, text in ((1, "one"), (2, "two")):
        response = cloud.http("GET", f"/v1/definitions/d?version={version}")
        assert (response.json["description"], response.headers["etag"]) == (text, f'"v{version}"')
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
    response = cloud.http(method, path, {} if method == "POST" else None)
    assert (response.status, response.json["code"]) == (422, "invalid-request")
    actual = [(fault["pointer"], fault["code"]) for fault in response.json["faults"]]
    assert actual == [(pointer, "unknown-parameter")]


def test_an_unknown_query_parameter_has_a_hint_and_does_not_hide_other_errors(cloud: Cloud) -> None:
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
            {"workerId": "w", "max": 101, "x": 1},
            [("/max", "out-of-range"), ("/x", "unknown-field")],
        ),
        ("/v1/work:report", {"workerId": "w", "results": [{}]}, None),
        ("/v1/jobs", {"trigger": "t", "x": 1}, [("/jobName", "missing-field"), ("/x", "unknown-field")]),
        ("/v1/jobs", [], [("", "bad-type")]),
    ],
)
def test_invalid_bodies_are_reported_the_same_way_on_all_routes(
    cloud: Cloud, path: str, body: Any, faults: list[tuple[str, str]] | None
) -> None:
    response = cloud.http("POST", path, body)
    assert (response.status, response.json["code"]) == (422, "invalid-request")
    actual = [(fault["pointer"], fault["code"]) for fault in response.json["faults"]]
    if faults is None:
        assert {code for _, code in actual} == {"missing-field"}
    else:
        assert actual == faults


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("POST", "/v1/workers", "groups"),
        ("POST", "/v1/jobs", "trigger"),
        ("PUT", "/v1/schedules/j/s", "cron"),
    ],
)
def test_a_deeply_nested_value_is_rejected(cloud: Cloud, method: str, path: str, field: str) -> None:
    deep: Any = []
    for _ in range(600):
        deep = [deep]
    assert cloud.http(method, path, {field: deep}).status == 422


def test_a_missing_body_is_rejected(cloud: Cloud) -> None:
    for path in ("/v1/workers", "/v1/work:lease"):
        response = cloud.http("POST", path)
        assert response.status == 422
        assert [fault["code"] for fault in response.json["faults"]] == ["missing-field"]


def test_a_job_with_an_unknown_group_is_rejected_with_a_pointer_to_its_name(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "workerGroup": "ghost"})
    response = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t"})
    assert response.status == 422
    [fault] = response.json["faults"]
    assert (fault["pointer"], fault["code"]) == ("/jobName", "unknown-group")
    assert "'b'" in fault["message"]
    assert "PUT /v1/groups/ghost" in fault["message"]


@pytest.mark.parametrize(
    "error",
    [Contended(), Throttled(), BlockChanged(Block(0, 1, {})), SendRefused()],
    ids=lambda error: type(error).__name__,
)
def test_a_transient_error_returns_503_with_retry_after(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, error: Transient
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Definitions, "page", fail)
    response = cloud.http("GET", "/v1/definitions")
    assert (response.status, response.json["code"], response.headers["retry-after"]) == (503, "busy", "1")


@pytest.mark.parametrize("how", ["before", "throttle"])
def test_an_outage_of_aws_returns_503_with_retry_after(cloud: Cloud, faults: Faults, how: How) -> None:
    faults.fail("dynamodb", "GetItem", how=how, times=10**6)
    response = cloud.http("GET", "/v1/definitions/d")
    assert (response.status, response.json["code"], response.headers["retry-after"]) == (503, "busy", "1")


def test_a_call_that_aws_refuses_permanently_is_an_internal_error(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetItem")

    monkeypatch.setattr(Definitions, "find", fail)
    assert cloud.http("GET", "/v1/definitions/d").status == 500


def test_the_log_of_an_internal_error_has_the_request_id_of_the_response(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(Definitions, "find", fail)
    with caplog.at_level(logging.INFO):
        response = cloud.http("GET", "/v1/definitions/d")
    assert (response.status, response.json["code"]) == (500, "internal-error")
    [line] = [each for each in caplog.records if each.exc_info and each.name.startswith("shardmill")]
    assert line.__dict__["requestId"] == response.json["requestId"]
    assert response.json["requestId"]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_openapi_document_lists_the_responses(cloud: Cloud) -> None:
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
        errors = {s: response for s, response in operation["responses"].items() if not s.startswith("2")}
        assert {"422", "default"} <= set(errors)
        assert ("401" in errors) == bool(operation["security"])
        assert ("403" in errors) == bool(operation["security"])
        assert ("413" in errors) == ("requestBody" in operation)
        for response in errors.values():
            schema = response["content"]["application/problem+json"]["schema"]
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
def test_every_response_status_is_in_the_openapi_document(
    cloud: Cloud, method: str, path: str, template: str, body: Any
) -> None:
    document = cloud.http("GET", "/openapi.json", token=None).json
    listed = document["paths"][template][method.lower()]["responses"]
    raw = json.dumps(body).encode() if body is not None else None
    responses = [
        cloud.http(method, path, raw, headers={"content-type": "application/json"}) for _ in range(2)
    ]
    responses.append(cloud.http(method, path, raw, headers={"content-type": "application/json"}, token="no"))
    if raw:
        responses.append(cloud.http(method, path, raw, headers={"content-type": "text/plain"}))
        responses.append(cloud.http(method, path, b"{"))
    assert {str(response.status) for response in responses} <= set(listed)


@pytest.mark.parametrize("path", ["/v1/definitions/", "/v1/jobs/x/", "/v1/groups/", "/v1/workers/"])
def test_very_long_names_are_not_found(runner: JobRunner, path: str) -> None:
    response = runner.cloud.http("GET", path + "x" * 4000)
    assert (response.status, response.headers["content-type"]) == (404, "application/problem+json")
