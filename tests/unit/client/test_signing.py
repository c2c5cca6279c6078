"""The SDK, the command line and workers sign requests if SHARDMILL_AUTH is iam."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import httpx
import pytest

from shardmill.aws import clients
from shardmill.client.client import Client
from shardmill.client.connection import connection
from shardmill.client.errors import NotConnected, Unreachable
from shardmill.client.signing import CannotSign, SignedRequests, region_of
from shardmill.worker.transport.http import HttpTransport
from support.aws_rules.signatures import fault

URL = "https://abc123.execute-api.eu-west-1.amazonaws.com/"
SECRET = "signing-secret"
Answer = Callable[[httpx.Request], httpx.Response]


class ApiGateway:
    """Answers requests whose signature is valid, and keeps them."""

    def __init__(self, *statuses: int) -> None:
        self.requests: list[httpx.Request] = []
        self._statuses = list(statuses)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        wrong = fault(
            request.method,
            str(request.url),
            SECRET,
            datetime.now(UTC),
            dict(request.headers),
            request.content,
        )
        if wrong:
            return httpx.Response(403, json={"message": wrong})
        return httpx.Response(self._statuses.pop() if self._statuses else 200, json={"items": []})


@pytest.fixture(autouse=True)
def iam(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": SECRET, "aws_session_token": "session"}
    session = boto3.Session(**keys, region_name="us-east-1")
    monkeypatch.setattr(clients, "_session", lambda: session)
    monkeypatch.setenv("SHARDMILL_AUTH", "iam")
    monkeypatch.setenv("SHARDMILL_TOKEN", "not-sent")


@pytest.fixture
def gateway() -> ApiGateway:
    return ApiGateway()


@pytest.fixture
def client(gateway: ApiGateway) -> Iterator[Client]:
    with Client(URL, transport=httpx.MockTransport(gateway)) as made:
        yield made


def test_requests_are_signed_for_the_routes_of_iam(client: Client, gateway: ApiGateway) -> None:
    list(client.definitions())
    client._http.send("POST", "/v1/jobs/a/t 1:kill", document={"reason": "é"}, headers={"if-match": '"v1"'})
    client._http.get("/v1/jobs", {"submitUser": "a b+c/é&=~", "limit": 3})
    assert [request.url.path for request in gateway.requests] == [
        "/iam/v1/definitions",
        "/iam/v1/jobs/a/t 1:kill",
        "/iam/v1/jobs",
    ]
    assert gateway.requests[2].url.params["submitUser"] == "a b+c/é&=~"
    for request in gateway.requests:
        header = request.headers["authorization"]
        assert "/eu-west-1/execute-api/aws4_request" in header
        assert request.headers["x-amz-security-token"] == "session"
        assert "not-sent" not in str(request.headers)


def test_a_retry_is_signed_again() -> None:
    gateway = ApiGateway(200, 503)
    with Client(URL, transport=httpx.MockTransport(gateway)) as client:
        list(client.definitions())
    assert len(gateway.requests) == 2


def test_a_worker_signs_requests_to_the_api_only(gateway: ApiGateway) -> None:
    found = connection(URL, worker=True)
    http = httpx.Client(transport=httpx.MockTransport(gateway))
    transport = HttpTransport(found.api, found.token, client=http, auth=found.auth())
    transport._send("/v1/work:lease", b'{"max": 1}', {"content-type": "application/json"})
    [request] = gateway.requests
    assert request.url.path == "/iam/v1/work:lease"
    with pytest.raises(Exception, match="403"):
        transport.put("https://bucket.s3.eu-west-1.amazonaws.com/x", b"y")
    assert "authorization" not in gateway.requests[1].headers


def test_a_missing_region_or_credentials_are_explained(
    monkeypatch: pytest.MonkeyPatch, gateway: ApiGateway
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CannotSign, match=r"the region of api\.example\.org is not known; set AWS_REGION"):
        region_of("api.example.org")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert region_of("api.example.org") == "eu-north-1"
    none: Any = type("Session", (), {"get_credentials": lambda _: None})()
    monkeypatch.setattr(clients, "_session", lambda: none)
    with (
        Client(URL, transport=httpx.MockTransport(gateway)) as client,
        pytest.raises(Unreachable, match="cannot be signed: Unable to locate credentials"),
    ):
        list(client.definitions())


def test_the_way_to_sign_in_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDMILL_AUTH", "kerberos")
    with pytest.raises(NotConnected, match="must be token or iam, not 'kerberos'"):
        connection(URL)
    monkeypatch.setenv("SHARDMILL_AUTH", "iam")
    monkeypatch.delenv("SHARDMILL_URL", raising=False)
    with pytest.raises(NotConnected, match="set the URL of the API"):
        connection()
    assert connection(URL + "iam/").api == URL + "iam"
    monkeypatch.setenv("SHARDMILL_AUTH", "token")
    assert connection(URL, "t").auth() is None
    assert isinstance(connection_signed(monkeypatch).auth(), SignedRequests)


def connection_signed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHARDMILL_AUTH", "iam")
    return connection(URL)


def test_tokens_import_no_botocore() -> None:
    code = "import sys, shardmill.client.client; sys.exit('botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
