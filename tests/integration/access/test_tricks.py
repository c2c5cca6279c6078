"""Paths, headers, cursors and names that try to reach what a token does not allow."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from shardmill.store import keys
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller, Callers
from support.scenarios.job_runner import JobRunner

PREFIXES = sorted(set(re.findall(r'"([A-Z_]{2,})#?"', Path(keys.__file__).read_text())))


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        runner = JobRunner(started)
        names = ("own-a", "own-b", "secret-a", "secret-b")
        for name in names:
            runner.define({"stepName": "a", "content": "x"}, name=name)
            assert started.http("PUT", f"/v1/schedules/{name}/s1", {"cron": "0 0 * * *"}).status == 201
            runner.submit(name=name)
        # Some tests count all calls of the cloud, so it is not shared.
        started.run_until(lambda: all(runner.states(name=name) == {"a": "READY"} for name in names), 20)
        yield started


@pytest.fixture(scope="module")
def reader(cloud: Cloud) -> Caller:
    return Callers(cloud).with_scopes({"scope": "read", "definitions": ["own-*"]})


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/secret-a%2Ft1",
        "/v1/jobs/own-a/..%2F..%2Fsecret-a%2Ft1",
        "/v1/jobs/own-a/../secret-a/t1",
        "/v1/jobs/own-a/../../tokens",
        "/v1/jobs/own-a%00/t1",
        "/v1//jobs/secret-a/t1",
        "//v1/jobs/secret-a/t1",
        "/v1/./jobs/secret-a/t1",
        "/V1/jobs/secret-a/t1",
        "/v1/jobs/secret-a/t1/",
        "/v1/jobs/secret-a/t1:explain",
        "/v1/jobs/secret-a/t1%3Aexplain",
        "/v1/jobs/SECRET-A/t1",
        "/v1/jobs/%73ecret-a/t1",
        "/v1/jobs/own-a/t1/steps/..%2F..%2F..%2Fsecret-a",
        "/v1/definitions/secret-a?version=1",
        "/v1/definitions/own-a%23secret-a",
        "/v1/definitions/own-*",
        "/v1/schedules/own-a%2Fs1%23/s1",
        "/v1/tokens",
        "/v1/tokens/",
        "/v1/tokens;x=1",
        "/v1/tokens%20",
        "/v1/dead-letters/",
        "/$default/v1/tokens",
        "/prod/v1/tokens",
        "/v1/jobs/own-a/t1?jobName=secret-a",
        "/assets/../v1/tokens",
        "/assets/x/..%2F..%2Fv1/tokens",
        "/v1/health/../tokens",
        "/openapi.json/../v1/tokens",
    ],
)
def test_manipulated_paths_reach_no_other_resource(reader: Caller, path: str) -> None:
    answer = reader("GET", path)
    assert answer.status in (401, 403, 404, 405, 422), answer
    assert "application/problem+json" in answer.headers["content-type"]
    assert '"steps"' not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/definitions/{quote(chr(0x20BB7) * 590)}",
        f"/v1/jobs/own-a/{quote(chr(0x20BB7) * 580)}",
        f"/v1/jobs?jobName={'a' * 3000}",
        f"/v1/jobs?jobName={quote(chr(0x20BB7) * 60)}",
    ],
    ids=lambda path: path[:20],
)
def test_names_that_do_not_fit_into_a_key_are_not_looked_up(
    reader: Caller, faults: Faults, path: str
) -> None:
    """DynamoDB rejects a key of more than 2,048 bytes."""
    assert reader("GET", "/v1/groups").status == 200
    faults.meter.calls.clear()
    assert reader("GET", path).status in (200, 404, 422)
    asked = [str(call.params) for call in faults.calls]
    assert not [text for text in asked if len(text.encode()) > 2048]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-http-method-override": "DELETE"},
        {"x-forwarded-for": "127.0.0.1", "x-forwarded-host": "localhost"},
        {"x-original-url": "/v1/tokens", "x-rewrite-url": "/v1/tokens"},
        {"x-amzn-oidc-identity": "admin", "x-amz-security-token": "x"},
        {"x-shardmill": "1", "x-shardmill-user": "admin"},
        {"cookie": "token=sm_x; actor=admin"},
    ],
    ids=str,
)
def test_headers_change_neither_the_caller_nor_the_request(cloud: Cloud, headers: dict[str, str]) -> None:
    assert cloud.http("GET", "/v1/tokens", token=None, headers=headers).status == 401
    reader = Callers(cloud).with_scopes("read").token
    assert cloud.http("GET", "/v1/tokens", token=reader, headers=headers).status == 403
    assert cloud.http("GET", "/v1/definitions/own-a", token=reader, headers=headers).status == 200
    assert cloud.http("GET", "/v1/definitions/own-a").status == 200, "nothing was deleted"


@pytest.mark.parametrize(
    "scheme", ["Basic {}", "{}", "Token {}", "Bearer {0},Bearer {0}", "Bearer x {}", "OAuth {}"]
)
def test_other_forms_of_the_authorization_header_get_401(cloud: Cloud, scheme: str) -> None:
    header = {"authorization": scheme.format(cloud.token)}
    assert cloud.http("GET", "/v1/jobs", token=None, headers=header).status == 401


def test_a_token_in_the_query_or_the_body_is_ignored(cloud: Cloud) -> None:
    assert cloud.http("GET", f"/v1/jobs?token={cloud.token}", token=None).status == 401
    assert cloud.http("POST", "/v1/jobs", {"token": cloud.token}, token=None).status == 401


def cursor(path: str, place: Any, **filters: str) -> str:
    """A cursor as the API makes it: it is a position, not a secret, and every caller can make one."""
    checksum = zlib.crc32(json.dumps([path, filters], sort_keys=True).encode())
    return base64.urlsafe_b64encode(json.dumps([place, checksum]).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("/v1/definitions", ["own-b", "secret-a", "", "\x00", "#", "a" * 300]),
        ("/v1/schedules", [["own-b", "s1"], ["secret-a", ""], ["SCHEDULES#", "#"], [], [1], [None, None]]),
        ("/v1/jobs", [10**6, -1, 0, 10**30, 10**200]),
        ("/v1/groups", ["", "zz", "#"]),
        ("/v1/workers", ["", "zz", "#"]),
        ("/v1/jobs/own-a/t1/history", [0, -5, 10**9]),
        ("/v1/jobs/own-a/t1/steps/a/tasks", [0, -5, 10**9, 10**30]),
        ("/v1/jobs/own-a/t1/files", [0, -5, 10**30]),
        ("/v1/definitions/own-a/versions", [1, -5, 10**30]),
        ("/v1/schedules/own-a", ["", "zz", "\x00"]),
        ("/v1/schedules/own-a/s1/backfills", [1, -5, 10**30]),
    ],
)
def test_forged_cursors_show_no_hidden_items(reader: Caller, path: str, places: list[Any]) -> None:
    for place in places:
        answer = reader("GET", f"{path}?cursor={cursor(path, place)}")
        assert answer.status in (200, 422), (place, answer)
        assert "secret" not in answer.text


@pytest.mark.parametrize(
    "text", ["x", "%%%", "bnVsbA", "W10", "WzEsMl0", "eyJhIjoxfQ", "W1tbW1tbW1tb", "A" * 500]
)
def test_cursors_of_another_form_are_rejected(reader: Caller, text: str) -> None:
    answer = reader("GET", f"/v1/definitions?cursor={text}")
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "bad-cursor")


def test_a_cursor_of_another_list_is_rejected(reader: Caller) -> None:
    given = cursor("/v1/groups", "own-a")
    assert reader("GET", f"/v1/definitions?cursor={given}").status == 422


def test_names_that_look_like_keys_of_other_items_stay_apart(cloud: Cloud) -> None:
    runner = JobRunner(cloud)
    tokens, groups = (cloud.http("GET", path).text for path in ("/v1/tokens", "/v1/groups"))
    names = [
        *PREFIXES,
        "head",
        "v00000001",
        "slots",
        "watch",
        "secret",
        "deadline",
        "__proto__",
        "constructor",
    ]
    for name in names:
        runner.define({"stepName": name, "content": "x"}, name=name)
        runner.submit(trigger="head", name=name)
        runner.submit(trigger="v00000001", name=name)
        assert cloud.http("PUT", f"/v1/schedules/{name}/backfill", {"cron": "0 0 * * *"}).status == 201
    for name in names:
        runner.run(trigger="head", name=name)
        assert runner.job("head", name)["state"] == "SUCCESS"
        assert cloud.http("GET", f"/v1/definitions/{name}").json["version"] == 1
        assert len(cloud.http("GET", f"/v1/definitions/{name}/versions").json["items"]) == 1
        assert [each["scheduleId"] for each in cloud.http("GET", f"/v1/schedules/{name}").json["items"]] == [
            "backfill"
        ]
    assert (tokens, groups) == tuple(cloud.http("GET", path).text for path in ("/v1/tokens", "/v1/groups"))


@pytest.mark.parametrize(
    "name", ["a#b", "a/b", "JOB#1", "a b", "../x", "a\n", "é", "", "a" * 65, "1a", "a%2Fb", "{{a}}"]
)
def test_names_with_other_characters_are_rejected(cloud: Cloud, name: str) -> None:
    document = {"jobName": name, "steps": [{"stepName": "a", "content": "x"}]}
    assert cloud.http("POST", "/v1/definitions:validate", document).json["valid"] is False
    for trigger in (name,) if name != "1a" else ():
        request = {"jobName": "own-a", "trigger": trigger}
        assert cloud.http("POST", "/v1/jobs", request).status == 422


def test_the_secret_of_a_token_is_neither_stored_nor_logged(
    cloud: Cloud, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    made = cloud.http("POST", "/v1/tokens", {"name": "ci", "scopes": ["read"]}).json
    rotated = cloud.http("POST", f"/v1/tokens/{made['id']}:rotate", {}).json
    for token in (made["token"], rotated["token"]):
        assert cloud.http("GET", "/v1/jobs", token=token).status == 200
        assert cloud.http("GET", "/v1/nothing", token=token).status == 404
    rows = str(cloud.clients.dynamodb.scan(TableName=cloud.table)["Items"])
    logged = "".join(capfd.readouterr()) + caplog.text
    for token in (made["token"], rotated["token"], cloud.token):
        assert token[-43:] not in rows
        assert token[-43:] not in logged


def test_without_a_rate_limit_a_request_writes_nothing(cloud: Cloud, faults: Faults) -> None:
    caller = Callers(cloud).with_scopes("read")
    assert caller("GET", "/v1/groups").status == 200
    faults.meter.calls.clear()
    for _ in range(50):
        assert caller("GET", "/v1/groups").status == 200
    assert not [name for name in faults.meter.calls if re.search("Update|Put|Write", name)]
