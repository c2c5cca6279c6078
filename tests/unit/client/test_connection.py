"""How the client and the command line find the URL and the token."""

from dataclasses import replace

import pytest

from shardmill.client.connection import connection
from shardmill.client.dev_session import Session
from shardmill.client.errors import NotConnected

DEV = Session(url="http://127.0.0.1:4600/_aws/x", token="of-dev", aws_endpoint="", pid=1, state="")


def found(url: str | None = None, token: str | None = None, dev: Session | None = None) -> tuple[str, str]:
    made = connection(url, token, find=lambda: dev)
    return made.url, made.token


def test_arguments_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDMILL_URL", "https://env.example")
    monkeypatch.setenv("SHARDMILL_TOKEN", "of-env")
    assert found() == ("https://env.example", "of-env")
    assert found(dev=DEV) == ("https://env.example", "of-env")
    assert found("https://given.example/", "given") == ("https://given.example", "given")


def test_a_running_dev_is_found() -> None:
    assert found(dev=DEV) == (DEV.url, "of-dev")
    assert found(token="other", dev=DEV) == (DEV.url, "other")
    assert found(DEV.url + "/", dev=DEV) == (DEV.url, "of-dev")


def test_a_worker_uses_the_token_for_workers_of_dev() -> None:
    dev = replace(DEV, worker_token="for-workers")
    assert connection(find=lambda: dev, worker=True).token == "for-workers"
    assert connection(find=lambda: dev).token == "of-dev"
    assert connection(token="given", find=lambda: dev, worker=True).token == "given"
    assert connection(find=lambda: DEV, worker=True).token == "of-dev", "a dev of an earlier release"


def test_the_token_of_dev_is_not_sent_to_another_url() -> None:
    with pytest.raises(NotConnected, match="no token"):
        found("https://elsewhere.example", dev=DEV)


def test_the_error_about_a_missing_url_suggests_dev() -> None:
    with pytest.raises(NotConnected, match="start it on this machine with `shardmill dev`"):
        found()


@pytest.mark.parametrize(
    "url",
    [
        "example.org",
        "ftp://example.org",
        "http://",
        "http://[::1",
        "http://example.org:0x1",
        "http://example.org:99999",
        "http://a b",
        "https://example.org/?x=1",
        "https://example.org/#x",
        "http://example.org\n",
    ],
)
def test_invalid_urls_are_rejected(url: str) -> None:
    if url.endswith("\n"):
        assert found(url, "t")[0] == url.strip()
        return
    with pytest.raises(NotConnected, match="is not a valid URL of an API"):
        found(url, "t")


@pytest.mark.parametrize("token", ["to ken", "tök", "a\nb"])
def test_invalid_tokens_are_rejected_without_showing_them(token: str) -> None:
    with pytest.raises(NotConnected) as caught:
        found("https://example.org", token)
    assert token not in str(caught.value)


def test_the_token_is_not_in_the_representation() -> None:
    assert "secret" not in repr(connection("https://example.org", "secret"))


def test_proxies_are_not_used_for_loopback() -> None:
    assert connection("http://localhost:1", "t").loopback
    assert connection("http://[::1]:1", "t").loopback
    assert not connection("https://example.org", "t").loopback
