"""Credentials that were taken out of the environment are still found, and renewed in containers."""

import os

import pytest

from shardmill.aws import credentials
from support.fakes.api import FakeApi, Reply


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*credentials.VARIABLES, "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setattr(credentials, "_taken", {})
    return monkeypatch


def keys() -> tuple[str, str, str | None]:
    found = credentials.new_session().get_credentials()
    assert found is not None
    frozen = found.get_frozen_credentials()
    return frozen.access_key, frozen.secret_key, frozen.token


def test_keys_are_used_after_they_left_the_environment(environ: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        environ.setenv(name, name.lower())
    credentials.take_from_environment()
    assert not set(credentials.VARIABLES) & set(os.environ)
    assert keys() == ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def test_a_container_renews_its_credentials(environ: pytest.MonkeyPatch) -> None:
    answer = {"AccessKeyId": "a", "SecretAccessKey": "s", "Token": "t", "Expiration": "2000-01-01T00:00:00Z"}
    renewed = answer | {"AccessKeyId": "b", "Expiration": "2100-01-01T00:00:00Z"}
    api = FakeApi()
    api.on("GET", "/role", Reply(answer), Reply(renewed))
    with api.served() as url:
        environ.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/role")
        environ.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod")
        credentials.take_from_environment()
        assert keys() == ("b", "s", "t")
    assert [request.headers["authorization"] for request in api.requests] == ["pod", "pod"]


def test_without_credentials_in_the_environment_boto3_looks_elsewhere(environ: pytest.MonkeyPatch) -> None:
    credentials.take_from_environment()
    assert credentials.new_session().get_credentials() is None
