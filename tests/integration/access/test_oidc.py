"""JWTs of an OIDC issuer: what is accepted, as whom, with which scopes; and every way to forge one."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.fakes.oidc_issuer import OidcIssuer, encode, number, oidc_issuer
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud

WORKER = {"name": "w", "groups": ["default"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}


@pytest.fixture(scope="module")
def issuer() -> Iterator[OidcIssuer]:
    with oidc_issuer() as started:
        yield started


@pytest.fixture(scope="module")
def cloud(issuer: OidcIssuer) -> Iterator[Cloud]:
    with moto_cloud(parameters={"OidcIssuer": issuer.url, "OidcClientId": "page"}) as started:
        yield started


def status(cloud: Cloud, token: str, method: str = "GET", path: str = "/v1/jobs", body: Any = None) -> int:
    return cloud.http(method, path, body, token=token).status


@pytest.mark.parametrize("alg", ["RS256", "ES256"])
def test_a_jwt_of_the_issuer_works_with_its_scopes(cloud: Cloud, issuer: OidcIssuer, alg: str) -> None:
    token = issuer.token(alg, scope="openid shardmill:read shardmill:define shardmill:submit")
    document = {"jobName": "mine", "steps": [{"stepName": "a", "content": "x"}]}
    saved = cloud.http("PUT", "/v1/definitions/mine", document, token=token)
    assert saved.json["submitUser"] == "alice"
    submitted = cloud.http("POST", "/v1/jobs", {"jobName": "mine", "trigger": alg}, token=token)
    assert (submitted.status, submitted.json["submitUser"]) == (202, "alice")
    assert status(cloud, token, "GET", "/v1/tokens") == 403
    assert status(cloud, issuer.token(alg, scope="shardmill:submit")) == 403
    assert status(cloud, issuer.token(alg, scope=None)) == 403


def test_limits_in_a_claim_apply(cloud: Cloud, issuer: OidcIssuer) -> None:
    token = issuer.token(scope=[{"scope": "read", "definitions": ["other-*"]}])
    assert cloud.http("GET", "/v1/definitions", token=token).json["items"] == []
    assert status(cloud, token, path="/v1/definitions/mine") == 404


def test_tokens_of_shardmill_work_beside_it(cloud: Cloud) -> None:
    made = cloud.http("POST", "/v1/tokens", {"name": "ci", "scopes": ["read"]}).json["token"]
    assert status(cloud, made) == 200


def test_workers_belong_to_the_subject_not_to_one_jwt(cloud: Cloud, issuer: OidcIssuer) -> None:
    first, later = (issuer.token(sub="host-1", scope="shardmill:worker", jti=jti) for jti in ("a", "b"))
    other = issuer.token(sub="host-2", scope="shardmill:worker")
    worker = cloud.http("POST", "/v1/workers", WORKER, token=first).json
    assert worker["owner"] == "host-1"
    beat = {"session": worker["session"], "work": []}
    path = f"/v1/workers/{worker['id']}:heartbeat"
    assert status(cloud, later, "POST", path, beat) == 200
    assert status(cloud, other, "POST", path, beat) == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": True},
        {"nbf": 9_999_999_999},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another-app"},
        {"aud": None},
        {"aud": []},
        {"sub": None},
        {"sub": "admin"},
        {"sub": "iam:role/session"},
        {"sub": "x\ny"},
        {"sub": ["alice"]},
    ],
    ids=str,
)
def test_claims_that_are_not_valid_get_401(cloud: Cloud, issuer: OidcIssuer, changes: dict[str, Any]) -> None:
    assert status(cloud, issuer.token(**changes)) == 401


def test_an_audience_may_be_one_of_several_or_a_client_id(cloud: Cloud, issuer: OidcIssuer) -> None:
    assert status(cloud, issuer.token(aud=["x", "shardmill"])) == 200
    assert status(cloud, issuer.token(aud=None, client_id="shardmill")) == 200
    assert status(cloud, issuer.token(aud="x", client_id="shardmill")) == 401


def forged(issuer: OidcIssuer) -> dict[str, str]:
    """JWTs that resemble those of the issuer, by how they were forged."""
    claims = issuer.claims(scope="shardmill:admin")
    good = issuer.token(scope="shardmill:read")
    head, body, signature = good.split(".")
    strong = encode(json.dumps(claims).encode())

    def with_header(**header: Any) -> str:
        return encode(json.dumps({"alg": "RS256", "kid": "r1", **header}).encode())

    public = issuer.rsa_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    hs_head = with_header(alg="HS256")
    hs = encode(hmac.new(public, f"{hs_head}.{strong}".encode(), hashlib.sha256).digest())
    own = OidcIssuer(url=issuer.url)
    weak = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
    jwk = {"kty": "RSA", "n": number(weak.n), "e": number(weak.e), "kid": "r1"}
    return {
        "no signature": f"{head}.{body}.",
        "claims replaced": f"{head}.{strong}.{signature}",
        "alg none": f"{with_header(alg='none')}.{strong}.",
        "alg None in capitals": f"{with_header(alg='NONE')}.{strong}.{signature}",
        "a list as algorithm": f"{with_header(alg=['RS256'])}.{strong}.{signature}",
        "an object as algorithm": f"{with_header(alg={'RS256': 1})}.{strong}.{signature}",
        "HMAC with the public key": f"{hs_head}.{strong}.{hs}",
        "signed with another key": own.token(scope="shardmill:admin"),
        "another key in the header": own.token(scope="shardmill:admin", header={"jwk": jwk}),
        "an address of keys in the header": own.token(header={"jku": "http://127.0.0.1:1/keys"}),
        "an unknown key": issuer.token(header={"kid": "../../etc/passwd"}),
        "no key id": issuer.token(header={"kid": None}),
        "the key of the other algorithm": issuer.token("RS256", header={"kid": "e1"}),
        "an ES256 signature of zeros": ".".join([*issuer.token("ES256").split(".")[:2], encode(bytes(64))]),
        "a critical extension": issuer.token(header={"crit": ["exp"]}),
        "four parts": good + ".x",
        "not base64": "..".join(["%%", "%%"]),
        "a list as claims": f"{head}.{encode(b'[]')}.{signature}",
        "deep nesting": f"{head}.{encode(b'[' * 5000)}.{signature}",
        "very long": issuer.token(padding="x" * 9000),
    }


def test_forged_jwts_get_401(cloud: Cloud, issuer: OidcIssuer) -> None:
    tokens = forged(issuer)
    assert {how: status(cloud, token) for how, token in tokens.items()} == dict.fromkeys(tokens, 401)


def test_many_requests_fetch_the_keys_once(cloud: Cloud, issuer: OidcIssuer) -> None:
    assert status(cloud, issuer.token()) == 200
    before = len(issuer.requests)
    for number_ in range(20):
        assert status(cloud, issuer.token(jti=str(number_))) == 200
        assert status(cloud, issuer.token(iss="https://evil.example")) == 401
    assert len(issuer.requests) == before


def test_a_jwt_is_valid_for_a_minute_after_its_time_because_clocks_differ(
    cloud: Cloud, issuer: OidcIssuer
) -> None:
    assert status(cloud, issuer.token(exp=int(time.time()) - 5)) == 200


def test_the_page_gets_the_sign_in_settings_and_may_call_the_issuer(cloud: Cloud, issuer: OidcIssuer) -> None:
    answer = cloud.http("GET", "/v1/sign-in", token=None)
    assert answer.json["oidc"] == {
        "authorizationEndpoint": f"{issuer.url}/authorize",
        "tokenEndpoint": f"{issuer.url}/token",
        "clientId": "page",
        "scope": "openid shardmill:read shardmill:submit shardmill:operate shardmill:define",
    }
    page = cloud.http("GET", "/?code=x&state=y", token=None)
    assert page.status == 200
    assert f"connect-src 'self' {issuer.url};" in page.headers["content-security-policy"]
