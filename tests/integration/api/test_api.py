"""The HTTP API: definitions, pages and problem details."""

import json
from importlib.metadata import version
from typing import Any

import pytest

from shardmill.model.groups.lanes import MAX_LANES
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner

STEP = {"steps": [{"stepName": "a"}]}


def test_definitions_have_versions_and_etags(cloud: Cloud) -> None:
    first = cloud.http("PUT", "/v1/definitions/d", STEP)
    assert (first.status, first.json["version"], first.headers["etag"]) == (201, 1, '"v1"')
    updated = cloud.http("PUT", "/v1/definitions/d", STEP, headers={"If-Match": '"v1"'})
    assert (updated.status, updated.json["version"]) == (200, 2)
    stale = cloud.http("PUT", "/v1/definitions/d", STEP, headers={"If-Match": '"v1"'})
    assert (stale.status, stale.json["code"]) == (412, "precondition-failed")
    new = cloud.http("PUT", "/v1/definitions/d", STEP, headers={"If-None-Match": "*"})
    assert new.status == 412
    versions = cloud.http("GET", "/v1/definitions/d/versions").json["items"]
    assert [saved["version"] for saved in versions] == [2, 1]
    assert cloud.http("DELETE", "/v1/definitions/d").status == 204
    assert cloud.http("GET", "/v1/definitions/d").status == 404
    assert cloud.http("GET", "/v1/definitions").json["items"] == []
    assert cloud.http("PUT", "/v1/definitions/d", STEP).json["version"] == 3


def test_both_definition_formats_are_returned_in_the_same_form(cloud: Cloud) -> None:
    old = {
        "steps": [
            {"stepName": "a", "stepType": "SHARD", "shardConf": {"shard": 12, "startShardId": 0}},
            {"stepName": "b", "dependentStep": "a"},
        ]
    }
    new = {"steps": [{"stepName": "a", "sharding": 12}, {"stepName": "b", "dependency": {"steps": ["a"]}}]}
    for name, document in (("old", old), ("new", new)):
        cloud.http("PUT", f"/v1/definitions/{name}", document)
    seen = [cloud.http("GET", f"/v1/definitions/{name}").json["steps"] for name in ("old", "new")]
    assert [step["sharding"] for steps in seen for step in steps if step["stepName"] == "a"] == [12, 12]
    assert [step["dependentSteps"] for steps in seen for step in steps if step["stepName"] == "b"] == [
        ["a"],
        ["a"],
    ]


def test_validation_reports_all_faults_and_changes_nothing(cloud: Cloud) -> None:
    document = {
        "jobName": "bad",
        "extra": 1,
        "steps": [
            {"stepName": "a", "dependentStep": "b"},
            {"stepName": "b", "dependentStep": "a"},
            {"stepName": "b", "sharding": 1_000_001},
            {"stepName": "1", "dependentStep": "ghost"},
            {"stepName": "s", "type": "shell", "content": "{{ params.nobody }}"},
            {"stepName": "t", "sharding": 2, "stepType": "SHARD", "shardConf": {"shard": 2}},
        ],
    }
    response = cloud.http("POST", "/v1/definitions:validate", document)
    assert (response.status, response.json["valid"]) == (200, False)
    pointers = {fault["pointer"] for fault in response.json["faults"]}
    assert {"/extra", "/steps/2/stepName", "/steps/2/sharding", "/steps/3/stepName"} <= pointers
    messages = " ".join(fault["message"] for fault in response.json["faults"])
    for text in ("a -> b -> a", "ghost", "nobody"):
        assert text in messages
    rejected = cloud.http("PUT", "/v1/definitions/bad", document)
    assert (rejected.status, rejected.json["code"]) == (422, "invalid-definition")
    assert cloud.http("GET", "/v1/definitions").json["items"] == []


@pytest.mark.parametrize("token", [None, "wrong"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/jobs"),
        ("PUT", "/v1/definitions/x"),
        ("POST", "/v1/work:lease"),
        ("GET", "/nowhere"),
        ("POST", "/v1/health"),
    ],
)
def test_requests_without_a_valid_token_are_rejected(
    cloud: Cloud, method: str, path: str, token: str | None
) -> None:
    response = cloud.http(method, path, {} if method != "GET" else None, token=token)
    assert (response.status, response.json["code"]) == (401, "unauthorized")
    assert response.headers["content-type"] == "application/problem+json"


def test_public_routes_need_no_token(cloud: Cloud) -> None:
    health = cloud.http("GET", "/v1/health", token=None).json
    assert health == {"status": "ok", "version": version("shardmill")}
    assert "/v1/jobs" in cloud.http("GET", "/openapi.json", token=None).json["paths"]
    assert cloud.http("GET", "/", token=None).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, "bad-request"),
        (b'{"jobName": "a", "jobName": "b"}', {}, 400, "bad-request"),
        (b'{"a": NaN}', {}, 400, "bad-request"),
        (b'{"jobName": "\xff\xfe"}', {}, 400, "bad-request"),
        (b"[" * 100_000 + b"]" * 100_000, {}, 400, "bad-request"),
        (b'{"params": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}", {}, 422, "invalid-request"),
        (b'"' + b"x" * 1_000_001 + b'"', {}, 413, "body-too-large"),
        (b"jobName=a", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported-media-type"),
        (b"{}", {"content-type": "text/plain"}, 415, "unsupported-media-type"),
    ],
)
def test_unreadable_bodies_are_rejected(
    cloud: Cloud, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    response = cloud.http("POST", "/v1/jobs", body, headers=headers)
    assert (response.status, response.json["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", "GET, POST"),
        ("POST", "/v1/definitions/a", "DELETE, GET, PUT"),
        ("PUT", "/v1/jobs/a/b", "DELETE, GET"),
        ("GET", "/v1/work:report", "POST"),
        ("POST", "/openapi.json", "GET"),
    ],
)
def test_a_method_not_allowed_response_lists_the_allowed_methods(
    cloud: Cloud, method: str, path: str, allowed: str
) -> None:
    response = cloud.http(method, path, {} if method != "GET" else None)
    assert (response.status, response.json["code"], response.headers["allow"]) == (
        405,
        "method-not-allowed",
        allowed,
    )


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/jobs/a/b/c", "/v1/definitions/a/b/c"])
def test_unknown_paths_are_not_found(cloud: Cloud, path: str) -> None:
    response = cloud.http("GET", path)
    assert (response.status, response.json["code"]) == (404, "no-such-path")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/definitions/nobody", "definition-not-found"),
        ("/v1/jobs/a/b", "job-not-found"),
        ("/v1/groups/nobody", "group-not-found"),
        ("/v1/workers/nobody", "worker-not-found"),
    ],
)
def test_unknown_resources_have_a_specific_code(cloud: Cloud, path: str, code: str) -> None:
    response = cloud.http("GET", path)
    assert (response.status, response.json["code"]) == (404, code)


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/v1/jobs?limit=0", "/limit"),
        ("/v1/jobs?limit=x", "/limit"),
        ("/v1/jobs?state=ODD", "/state"),
        ("/v1/jobs?cursor=!!", "/cursor"),
    ],
)
def test_invalid_query_parameters_are_reported_with_a_pointer(cloud: Cloud, path: str, pointer: str) -> None:
    response = cloud.http("GET", path)
    assert (response.status, response.json["code"]) == (422, "invalid-request")
    assert [fault["pointer"] for fault in response.json["faults"]] == [pointer]


def _pages(cloud: Cloud, path: str, limit: int) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        query = f"{path}{'&' if '?' in path else '?'}limit={limit}" + (f"&cursor={cursor}" if cursor else "")
        page = cloud.http("GET", query).json
        assert len(page["items"]) <= limit
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_pages_contain_each_item_once(runner: JobRunner, limit: int) -> None:
    for name in ("a", "b", "c"):
        runner.define({"stepName": "s", "sharding": 5}, name=name)
    for trigger in ("t1", "t2"):
        runner.submit(trigger, name="a")
    runner.run(name="a")
    runner.run(trigger="t2", name="a")
    runner.submit("t3", name="b")
    runner.run(trigger="t3", name="b")
    assert [found["jobName"] for found in _pages(runner.cloud, "/v1/definitions", limit)] == ["a", "b", "c"]
    assert [job["trigger"] for job in _pages(runner.cloud, "/v1/jobs", limit)] == ["t3", "t2", "t1"]
    assert [job["trigger"] for job in _pages(runner.cloud, "/v1/jobs?jobName=a", limit)] == ["t2", "t1"]
    assert [job["trigger"] for job in _pages(runner.cloud, "/v1/jobs?state=SUCCESS", limit)] == [
        "t3",
        "t2",
        "t1",
    ]
    assert _pages(runner.cloud, "/v1/jobs?state=FAILED", limit) == []
    assert len(_pages(runner.cloud, "/v1/jobs?submitUser=admin", limit)) == 3
    tasks = _pages(runner.cloud, "/v1/jobs/a/t1/steps/s/tasks", limit)
    assert [task["rank"] for task in tasks] == [0, 1, 2, 3, 4]
    assert {group["name"] for group in _pages(runner.cloud, "/v1/groups", limit)} == {"default", "lambda"}


def test_groups_are_created_changed_and_deleted_with_their_queues(runner: JobRunner) -> None:
    created = runner.cloud.http("PUT", "/v1/groups/g1", {"leaseSeconds": 30})
    assert (created.status, created.json["kind"], created.json["leaseSeconds"]) == (201, "pull", 30)
    row = runner.mill.groups.get("g1")
    assert row is not None
    assert len(row.queues) == MAX_LANES
    assert all(len(url.rsplit("/", 1)[1]) <= 80 for url in row.queues)
    assert runner.cloud.http("PUT", "/v1/groups/g1", {"leaseSeconds": 40}).status == 200
    assert runner.cloud.http("PUT", "/v1/groups/g1", {"kind": "lambda"}).json["code"] == "group-fixed"
    assert runner.cloud.http("DELETE", "/v1/groups/default").json["code"] == "group-fixed"
    assert runner.cloud.http("PUT", "/v1/groups/1bad", {}).status == 422
    assert runner.cloud.http("DELETE", "/v1/groups/g1").status == 204
    assert runner.cloud.http("GET", "/v1/groups/g1").status == 404
    recreated = runner.cloud.http("PUT", "/v1/groups/g1", {})
    assert recreated.status == 201
    newer = runner.mill.groups.get("g1")
    assert newer is not None
    assert not set(newer.queues) & set(row.queues)


def test_a_worker_registers_leases_beats_and_reports_over_http(runner: JobRunner) -> None:
    http = runner.cloud.http
    worker = http("POST", "/v1/workers", {"name": "w1", "groups": ["default"], "slots": 2}).json
    assert worker["status"] == 3
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit()
    lease = {"workerId": worker["id"], "session": worker["session"], "max": 10, "waitSeconds": 5}
    leases: list[dict[str, Any]] = []
    runner.cloud.run_until(
        lambda: len(leases) == 2,
        meanwhile=lambda: leases.extend(http("POST", "/v1/work:lease", lease).json["items"]),
    )
    work = [{"taskId": held["taskId"], "attempt": 1} for held in leases]
    beat = http("POST", f"/v1/workers/{worker['id']}:heartbeat", {"session": worker["session"], "work": work})
    assert (beat.status, beat.json["drop"]) == (200, [])
    assert http("GET", f"/v1/workers/{worker['id']}").json["activity"] == "busy"
    results = [
        {"taskId": h["taskId"], "attempt": 1, "receipt": h["receipt"], "outcome": "success"} for h in leases
    ]
    done = http("POST", "/v1/work:report", {"workerId": worker["id"], "results": results})
    assert [item["status"] for item in done.json["items"]] == ["ok", "ok"]
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")
    stale = http("POST", f"/v1/workers/{worker['id']}:heartbeat", {"session": worker["session"] + 1})
    assert (stale.status, stale.json["code"]) == (409, "stale-session")
    unknown = http("POST", "/v1/work:report", {"workerId": "nobody", "results": results})
    assert (unknown.status, unknown.json["code"]) == (404, "worker-not-found")


def test_the_openapi_document_is_complete(cloud: Cloud) -> None:
    document = cloud.http("GET", "/openapi.json", token=None).json
    text = json.dumps(document)
    refs = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert refs <= set(document["components"]["schemas"])
    for path in (
        "/v1/work:lease",
        "/v1/work:report",
        "/v1/jobs/{job_name}/{trigger}",
        "/v1/definitions:validate",
    ):
        assert path in document["paths"]


@pytest.mark.parametrize("kind", ["APPLICATION/JSON", "application/json; charset=utf-8"])
def test_media_types_are_case_insensitive(runner: JobRunner, kind: str) -> None:
    body = json.dumps({"steps": [{"stepName": "a"}]}).encode()
    assert runner.cloud.http("PUT", "/v1/definitions/x", body, headers={"Content-Type": kind}).status == 201
