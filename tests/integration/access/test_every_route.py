"""Every route of the table: requests without a token, and with invalid, insufficient or limited tokens.

The cases derive from the table of routes, so that a new route is tested without a change here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shardmill.api.routes import ROUTES, Route
from shardmill.model.access.grants import SCOPES
from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Callers
from support.scenarios.job_runner import JobRunner

PROTECTED = [route for route in ROUTES if not route.public]
NAMED = [route for route in PROTECTED if "<" in route.path and not route.whole and route.scope != "worker"]
CHANGING = [
    route for route in NAMED if route.scope != "read" and not re.search("worker_id|client_id", route.path)
]
HIDDEN = {
    "job_name": "secret",
    "trigger": "t1",
    "step_name": "a",
    "index": "0",
    "schedule_id": "s1",
    "number": "1",
    "name": "vault",
    "worker_id": "aaaaaaaa",
    "letter_id": "l1",
    "token_id": "a" * 16,
    "job_id": "",  # set when the job is submitted
    "work_id": "",
    "client_id": "aaaaaaaa",
}
CODES = {401: "unauthorized", 403: "forbidden"}


def address(route: Route, **values: str) -> str:
    path = re.sub(r"<(\w+)>", lambda found: (HIDDEN | values)[found[1]], route.path)
    return f"{path}?{route.query}" if route.query else path


def refusal(answer: Answer) -> tuple[int, str]:
    """The status and the code of an error; the envelope of the AWE protocol has no code."""
    if "code" in answer.json:
        return answer.status, answer.json["code"]
    assert answer.json.keys() == {"status", "data", "error"}
    assert (answer.json["status"], answer.json["data"]) == (answer.status, None)
    assert answer.json["error"]
    return answer.status, CODES.get(answer.status, "")


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        started.http("PUT", "/v1/groups/vault", {})
        runner = JobRunner(started)
        runner.define({"stepName": "a", "content": "x"}, name="secret", appName="hr", workerGroup="vault")
        started.http("PUT", "/v1/schedules/secret/s1", {"cron": "0 0 * * *"})
        HIDDEN["job_id"] = runner.submit(name="secret")["id"]
        HIDDEN["work_id"] = f"{HIDDEN['job_id']}_a_0"
        yield started


@pytest.fixture(scope="module")
def callers(cloud: Cloud) -> Callers:
    return Callers(cloud)


def body(route: Route) -> dict[str, str] | None:
    return {} if route.method in ("POST", "PUT") else None


def test_the_table_has_every_operation_of_the_openapi_document(cloud: Cloud) -> None:
    """The document is made from the table, so that the cases of both are the same."""
    paths = cloud.http("GET", "/openapi.json", token=None).json["paths"]
    described = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    tested = {(route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for route in ROUTES if route.documented}
    assert described == tested
    public = {route.path for route in ROUTES if route.documented and route.public}
    assert public == {"/v1/health", "/v1/sign-in"}


def test_every_route_has_a_scope_or_is_public() -> None:
    assert [name_of(route) for route in PROTECTED if route.scope not in SCOPES] == []
    assert {route.path for route in ROUTES if route.public} == {
        "/",
        "/awe",
        "/awe/node",  # the node store checks tokens itself: tests/integration/awe
        "/awe/node/<node_id>",
        "/awe/node/<node_id>/index/<index>",
        "/assets/<digest>/<folder>/<name>",
        "/openapi.json",
        "/v1/health",
        "/v1/sign-in",
    }


@pytest.fixture(scope="module")
def invalid_tokens(cloud: Cloud, callers: Callers) -> dict[str, str | None]:
    """Tokens that no route accepts, by what is wrong with them."""
    token = callers.with_scopes("admin").token
    expired = cloud.http(
        "POST", "/v1/tokens", {"name": "old", "scopes": ["admin"], "expires": "2999-01-01T00:00:00Z"}
    ).json
    cloud.clients.dynamodb.update_item(
        TableName=cloud.table,
        Key={"pk": {"S": "TOKENS"}, "sk": {"S": expired["id"]}},
        UpdateExpression="SET expires = :past",
        ExpressionAttributeValues={":past": {"N": "1"}},
    )
    revoked = cloud.http("POST", "/v1/tokens", {"name": "gone", "scopes": ["admin"]}).json
    assert cloud.http("DELETE", f"/v1/tokens/{revoked['id']}").status == 204
    return {
        "none": None,
        "foreign": "sm_" + "b" * 16 + token[19:],
        "wrong secret": token[:20] + "A" * 43,
        "expired": expired["token"],
        "revoked": revoked["token"],
        "malformed": token + "=",
        "an AWS key": "AKIAIOSFODNN7EXAMPLE",
    }


@pytest.mark.parametrize("route", PROTECTED, ids=name_of)
def test_a_token_that_is_not_valid_gets_401(
    cloud: Cloud, invalid_tokens: dict[str, str | None], route: Route
) -> None:
    answers = {
        why: cloud.http(route.method, address(route), body(route), token=token)
        for why, token in invalid_tokens.items()
    }
    assert {why: refusal(each) for why, each in answers.items()} == dict.fromkeys(
        invalid_tokens, (401, "unauthorized")
    )


@pytest.mark.parametrize("route", PROTECTED, ids=name_of)
def test_a_token_with_every_other_scope_gets_403(cloud: Cloud, callers: Callers, route: Route) -> None:
    others = [scope for scope in SCOPES if scope not in (route.scope, "admin")]
    answer = callers.with_scopes(*others)(route.method, address(route), body(route))
    assert refusal(answer) == (403, "forbidden")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "limit", [{"definitions": ["own-*"]}, {"applications": ["finance"]}, {"groups": ["own"]}], ids=str
)
@pytest.mark.parametrize("route", NAMED, ids=name_of)
def test_a_limited_token_gets_the_same_answer_for_hidden_and_missing_items(
    callers: Callers, route: Route, limit: dict[str, list[str]]
) -> None:
    caller = callers.with_scopes({"scope": route.scope, **limit})
    other = "00000000-0000-4000-8000-000000000000"
    nothing = {"job_name": "nothing", "name": "nothing", "worker_id": "zzzzzzzz", "client_id": "zzzzzzzz"}
    nothing |= {"job_id": other, "work_id": f"{other}_a_0"}
    hidden = caller(route.method, address(route), body(route))
    missing = caller(route.method, address(route, **nothing), body(route))
    if route.method == "PUT" and route.scope == "define" and missing.status != 404:
        assert hidden.status == 403, "a name outside the limits, whether or not it exists"
        return
    assert hidden.status == 404
    assert refusal(hidden) == refusal(missing)
    text = hidden.text
    for name, unknown in nothing.items():
        text = text.replace(HIDDEN[name], unknown)
    assert text == missing.text


@pytest.mark.parametrize("route", [route for route in PROTECTED if route.whole], ids=name_of)
def test_a_limited_scope_is_not_enough_for_the_whole_deployment(callers: Callers, route: Route) -> None:
    caller = callers.with_scopes({"scope": route.scope, "definitions": ["own-*"], "groups": ["own"]})
    answer = caller(route.method, address(route), body(route))
    assert refusal(answer) == (403, "forbidden")


@pytest.mark.parametrize("route", CHANGING, ids=name_of)
def test_a_readable_item_outside_the_scope_of_an_action_gets_403(callers: Callers, route: Route) -> None:
    caller = callers.with_scopes("read", {"scope": route.scope, "definitions": ["own-*"], "groups": ["own"]})
    answer = caller(route.method, address(route), body(route))
    assert refusal(answer) == (403, "forbidden")
