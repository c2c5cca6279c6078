"""/v1/tokens: created, listed without the secret, rotated with an overlap and revoked; recorded owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine import authorize
from support.fakes.oidc_issuer import OidcIssuer
from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Callers

pytestmark = pytest.mark.usefixtures("callers")


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        yield started


@pytest.fixture(scope="module")
def callers(cloud: Cloud) -> Callers:
    return Callers(cloud)


def create(cloud: Cloud, *scopes: Any, **fields: Any) -> Answer:
    return cloud.http("POST", "/v1/tokens", {"name": "ci", "scopes": list(scopes) or ["read"], **fields})


def test_a_token_is_shown_once_and_works(cloud: Cloud) -> None:
    answer = create(cloud, "read", owner="alice")
    assert answer.status == 201
    made = answer.json
    assert answer.headers["location"] == f"/v1/tokens/{made['id']}"
    assert made["token"].startswith(f"sm_{made['id']}_")
    assert (made["name"], made["owner"], made["createUser"]) == ("ci", "alice", "admin")
    shown = cloud.http("GET", f"/v1/tokens/{made['id']}").json
    assert "token" not in shown
    listed = cloud.http("GET", "/v1/tokens").json["items"]
    assert made["id"] in {each["id"] for each in listed}
    assert made["token"].rpartition("_")[2] not in str(listed)
    assert cloud.http("GET", "/v1/jobs", token=made["token"]).status == 200
    assert cloud.http("GET", f"/v1/tokens/{made['id']}").json["lastUseTime"]


def test_a_missing_scope_gets_403_and_a_missing_token_401(cloud: Cloud) -> None:
    reader = create(cloud, "read").json["token"]
    answer = cloud.http("POST", "/v1/jobs", {"jobName": "x", "trigger": "t"}, token=reader)
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert answer.headers["content-type"] == "application/problem+json"
    assert cloud.http("GET", "/v1/tokens", token=reader).status == 403
    for token in (None, "sm_x", reader[:-1] + "~", reader + "x"):
        answer = cloud.http("GET", "/v1/jobs", token=token)
        assert (answer.status, answer.json["code"]) == (401, "unauthorized")


def test_a_rotated_token_works_with_both_secrets_until_the_overlap_ends(cloud: Cloud) -> None:
    made = create(cloud).json
    rotated = cloud.http("POST", f"/v1/tokens/{made['id']}:rotate", {"overlapSeconds": 600}).json
    assert rotated["id"] == made["id"]
    assert rotated["overlapUntil"] > rotated["rotateTime"]
    for token in (made["token"], rotated["token"]):
        assert cloud.http("GET", "/v1/jobs", token=token).status == 200
    last = cloud.http("POST", f"/v1/tokens/{made['id']}:rotate", {"overlapSeconds": 0}).json["token"]
    assert cloud.http("GET", "/v1/jobs", token=last).status == 200
    for token in (made["token"], rotated["token"]):
        assert cloud.http("GET", "/v1/jobs", token=token).status == 401


def test_no_secret_stops_working_before_its_overlap_ends(cloud: Cloud) -> None:
    made = create(cloud).json
    secrets = [made["token"]]
    path = f"/v1/tokens/{made['id']}:rotate"
    for _ in range(5):
        secrets.append(cloud.http("POST", path, {"overlapSeconds": 600}).json["token"])
    refused = cloud.http("POST", path, {"overlapSeconds": 600})
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert [cloud.http("GET", "/v1/jobs", token=each).status for each in secrets] == [200] * 6
    last = cloud.http("POST", path, {"overlapSeconds": 0}).json["token"]
    assert cloud.http("GET", "/v1/jobs", token=last).status == 200
    assert [cloud.http("GET", "/v1/jobs", token=each).status for each in secrets] == [401] * 6


def test_a_revoked_token_stops_when_the_authorizer_reads_its_row_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(cloud).json
    assert cloud.http("GET", "/v1/jobs", token=made["token"]).status == 200
    assert cloud.http("DELETE", f"/v1/tokens/{made['id']}").status == 204
    monkeypatch.setattr(authorize, "TOKEN_CACHE_MS", 0)  # the minute is over
    assert cloud.http("GET", "/v1/jobs", token=made["token"]).status == 401
    for method, path in (("DELETE", ""), ("GET", ""), ("POST", ":rotate")):
        answer = cloud.http(method, f"/v1/tokens/{made['id']}{path}")
        assert (answer.status, answer.json["code"]) == (404, "token-not-found")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "admin"},
        {"owner": "EventBridge"},
        {"name": " admin "},
        {"owner": "iam:role/session"},
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": [{"scope": "read", "definitions": ["*"]}]},
        {"scopes": [{"scope": "read", "definitions": ["a*b"]}]},
        {"scopes": [{"scope": "read", "definitions": []}]},
        {"scopes": [{"scope": "worker", "definitions": ["a"]}]},
        {"scopes": [{"scope": "read", "applications": ["a" * 100 for _ in range(50)]}]},
        {"expires": "2020-01-01T00:00:00Z"},
        {"expires": "soon"},
        {"secret": "mine"},
    ],
    ids=str,
)
def test_a_request_that_is_not_valid_is_rejected(cloud: Cloud, fields: dict[str, Any]) -> None:
    answer = cloud.http("POST", "/v1/tokens", {"name": "ci", "scopes": ["read"], **fields})
    assert (answer.status, answer.json["code"]) == (422, "invalid-request")


def test_users_are_the_owners_of_tokens_regardless_of_the_body(cloud: Cloud) -> None:
    token = create(cloud, "submit", "define", "operate", "read", owner="alice").json["token"]
    document = {"jobName": "mine", "steps": [{"stepName": "a", "content": "x"}]}
    assert cloud.http("PUT", "/v1/definitions/mine", document, token=token).json["submitUser"] == "alice"
    request = {"jobName": "mine", "trigger": "t1"}
    forged = {**request, "submitUser": "bob"}
    assert cloud.http("POST", "/v1/jobs", forged, token=token).status == 422
    assert cloud.http("POST", "/v1/jobs", request, token=token).json["submitUser"] == "alice"
    assert cloud.http("POST", "/v1/jobs/mine/t1:suspend", {}, token=token).status == 200
    history = cloud.http("GET", "/v1/jobs/mine/t1/history").json["items"]
    assert {each["actor"] for each in history} <= {"alice", "shardmill"}
    assert "alice" in cloud.http("GET", "/v1/jobs/mine/t1").json["notes"]


def test_without_an_issuer_jwts_are_not_accepted(cloud: Cloud) -> None:
    assert cloud.http("GET", "/v1/jobs", token=OidcIssuer("http://127.0.0.1:1").token()).status == 401
    assert cloud.http("GET", "/v1/sign-in", token=None).json == {"oidc": None}
    policy = cloud.http("GET", "/", token=None).headers["content-security-policy"]
    assert "connect-src 'self';" in policy


def test_a_token_reads_its_own_name_and_scopes(cloud: Cloud, callers: Callers) -> None:
    limited = {"scope": "operate", "definitions": ["own-*"]}
    caller = callers.with_scopes("read", limited, owner="alice")
    shown = caller("GET", "/v1/tokens/self").json
    assert (shown["name"], shown["scopes"]) == ("alice", ["read", limited])
    assert cloud.http("GET", f"/v1/tokens/{shown['tokenId']}").json["owner"] == "alice"
    admin = cloud.http("GET", "/v1/tokens/self").json
    assert (admin["name"], admin["tokenId"], admin["scopes"]) == ("admin", None, ["admin"])
