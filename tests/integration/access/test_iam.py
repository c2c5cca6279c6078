"""Requests that API Gateway authorized with IAM, on the routes below /iam/."""

from __future__ import annotations

from typing import Any

import pytest

from support.moto.cloud import Cloud
from support.moto.http_api import http_event

ROLE = "arn:aws:sts::123456789012:assumed-role/Batch/session-1"
USER = "arn:aws:iam::123456789012:user/ops/alice"


def ask(cloud: Cloud, method: str, path: str, arn: str | None, body: bytes | None = None) -> Any:
    """Invoke the API with the event that API Gateway makes for a route of the type AWS_IAM."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {cloud.token}"}
    event = http_event(method, path, body, headers, "ANY /iam/{proxy+}")
    if arn is not None:
        event["requestContext"]["authorizer"] = {"iam": {"userArn": arn, "accountId": "123456789012"}}
    return cloud.invoke("api", event)


@pytest.mark.parametrize(("arn", "user"), [(ROLE, "iam:Batch/session-1"), (USER, "iam:ops/alice")])
def test_a_principal_works_with_the_scopes_of_the_deployment(cloud: Cloud, arn: str, user: str) -> None:
    document = b'{"steps": [{"stepName": "a", "content": "x"}]}'
    saved = ask(cloud, "PUT", "/iam/v1/definitions/mine", arn, document)
    assert saved["statusCode"] == 201
    assert cloud.http("GET", "/v1/definitions/mine").json["submitUser"] == user
    assert ask(cloud, "GET", "/iam/v1/jobs", arn)["statusCode"] == 200
    assert ask(cloud, "GET", "/iam/v1/tokens", arn)["statusCode"] == 403, "admin is not among the scopes"


@pytest.mark.parametrize("arn", [None, "", "alice", "arn:aws:iam"])
def test_a_request_without_an_identity_is_rejected(cloud: Cloud, arn: str | None) -> None:
    assert ask(cloud, "GET", "/iam/v1/jobs", arn)["statusCode"] == 401


def test_iam_routes_do_not_exist_by_default(cloud: Cloud) -> None:
    assert cloud.http("GET", "/iam/v1/jobs").status == 404
    assert cloud.http("GET", "/iam/v1/jobs", token=None).status == 401


def test_a_worker_belongs_to_its_role_in_every_session(cloud: Cloud) -> None:
    body = b'{"name": "w", "groups": ["default"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}'
    assert ask(cloud, "POST", "/iam/v1/workers", ROLE, body)["statusCode"] == 201
    [worker] = cloud.http("GET", "/v1/workers").json["items"]
    beat = b'{"session": %d, "work": []}' % worker["session"]
    path = f"/iam/v1/workers/{worker['id']}:heartbeat"
    assert ask(cloud, "POST", path, ROLE.replace("session-1", "session-2"), beat)["statusCode"] == 200
    assert ask(cloud, "POST", path, ROLE.replace("Batch", "Other"), beat)["statusCode"] == 404
