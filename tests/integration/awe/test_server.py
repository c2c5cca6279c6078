"""The frame of the AWE protocol: the server itself, slashes, tokens, and errors in the envelope."""

import json
from typing import Any

import pytest

from shardmill.engine.mill import Mill
from support.moto.cloud import Cloud
from support.moto.http_api import http_event
from support.scenarios.access import Callers


def test_the_server_describes_itself(cloud: Cloud) -> None:
    answer = cloud.http("GET", "/awe", token=None)
    assert answer.status == 200
    assert answer.json["id"] == "AWE"
    assert answer.json["type"] == "server"
    assert answer.json["queue_status"] == "running"
    assert {"resources", "url", "title", "contact", "version", "server_time", "uptime"} < answer.json.keys()
    assert cloud.http("GET", "/awe/").json["uuid"] == answer.json["uuid"]


def test_a_function_url_serves_awe_requests_only(cloud: Cloud) -> None:
    """Its events are those of an HTTP API that calls no authorizer."""

    def request(path: str) -> dict[str, Any]:
        headers = {"host": "x.lambda-url.eu-west-1.on.aws", "x-forwarded-proto": "https"}
        headers["authorization"] = f"Bearer {cloud.token}"
        answer: dict[str, Any] = cloud.invoke("api", http_event("GET", path, None, headers, "$default"))
        return answer

    listed = request("/awe/job")
    assert (listed["statusCode"], json.loads(listed["body"])["total_count"]) == (200, 0)
    described = json.loads(request("/awe")["body"])
    assert described["url"] == "https://x.lambda-url.eu-west-1.on.aws/awe/"
    assert request("/node/none")["statusCode"] == 404
    assert {request(path)["statusCode"] for path in ("/v1/jobs", "/v1/tokens", "/iam/v1/jobs", "/x")} == {401}


def test_the_uuid_never_changes(cloud: Cloud) -> None:
    first = cloud.http("GET", "/awe").json["uuid"]
    from shardmill.aws.settings import Settings

    other = Mill.connect(Settings.from_environment(cloud.environment))
    assert other.awe_servers.get("another", 1).uuid == first


def test_two_concurrent_first_calls_agree_on_one_uuid(cloud: Cloud) -> None:
    from shardmill.aws.settings import Settings

    one, two = (Mill.connect(Settings.from_environment(cloud.environment)).awe_servers for _ in range(2))
    table = two._table
    read = table.get
    table.get = lambda key, **more: None  # type: ignore[method-assign, misc]
    assert one.get("a", 1).uuid == "a"
    assert two.get("b", 2).uuid == "a"
    table.get = read  # type: ignore[method-assign]


@pytest.mark.parametrize("scheme", ["CG_TOKEN", "cg_token", "OAuth", "oauth", "mgrast", "Mgrast", "bearer"])
def test_every_spelling_of_the_authorization_scheme_is_accepted(cloud: Cloud, scheme: str) -> None:
    token = Callers(cloud).with_scopes("read").token
    headers = {"AUTHORIZATION": f"{scheme}   {token}"}
    assert cloud.http("GET", "/awe/nothing", token=None, headers=headers).status == 404
    v1 = cloud.http("GET", "/v1/groups", token=None, headers=headers).status
    assert v1 == (200 if scheme == "bearer" else 401)


def test_errors_are_in_the_envelope(cloud: Cloud) -> None:
    answer = cloud.http("GET", "/awe/nothing")
    assert answer.status == 404
    assert answer.json["status"] == 404
    assert answer.json["data"] is None
    assert "/awe/nothing" in answer.json["error"][0]
    assert cloud.http("PATCH", "/awe").json["status"] == 405
    assert cloud.http("GET", "/awe/nothing", token=None).json["status"] == 401


def test_the_queue_is_suspended_and_resumed(cloud: Cloud) -> None:
    assert cloud.http("PUT", "/awe/queue?suspend").json["data"] == "queue suspended"
    assert cloud.http("GET", "/awe").json["queue_status"] == "suspended"
    assert cloud.http("PUT", "/awe/queue/?resume=1").json["data"] == "queue resumed"
    assert cloud.http("GET", "/awe").json["queue_status"] == "running"
    assert cloud.http("PUT", "/awe/queue").status == 400
