"""Webhook requests: which responses count as delivered, and which addresses are rejected."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine.notify import NotDelivered
from shardmill.worker import webhook
from support.fakes.webhook_receiver import Receiver, receiver


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as started:
        yield started


def post(url: str, *, loopback: bool = True) -> None:
    webhook.post(url, {"webhook-id": "1"}, b"{}", loopback=loopback)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_status_means_delivered(hook: Receiver, status: int) -> None:
    hook.statuses = [status]
    post(f"{hook.url}?token=x")
    [request] = hook.requests
    assert (request.path, request.headers["webhook-id"], request.body) == ("/hook?token=x", "1", b"{}")


@pytest.mark.parametrize("status", [301, 307, 400, 404, 410, 429, 500, 503])
def test_any_other_status_means_not_delivered(hook: Receiver, status: int) -> None:
    hook.statuses, hook.location = [status], hook.url
    with pytest.raises(NotDelivered, match=rf"^127\.0\.0\.1 returned {status} "):
        post(f"{hook.url}?token=x")
    assert len(hook.requests) == 1


def test_a_receiver_that_does_not_respond_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(NotDelivered, match=r"within 0\.2 s"),
    ):
        post(f"http://127.0.0.1:{server.getsockname()[1]}/")


def test_an_unreachable_receiver_means_not_delivered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    with pytest.raises(NotDelivered, match=r"cannot send to .*: ConnectionRefusedError"):
        post(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_loopback_receiver_requires_permission(hook: Receiver, host: str) -> None:
    with pytest.raises(NotDelivered, match="NotifyLoopback"):
        post(hook.url.replace("127.0.0.1", host), loopback=False)
    assert hook.requests == []
    post(hook.url.replace("127.0.0.1", host))
    assert len(hook.requests) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"])
def test_loopback_addresses_are_recognised(address: str) -> None:
    assert webhook._is_loopback(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"])
def test_other_addresses_are_not_loopback(address: str) -> None:
    assert not webhook._is_loopback(address)


def test_a_name_that_resolves_to_the_metadata_service_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def metadata(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", metadata)
    with pytest.raises(NotDelivered, match="link-local"):
        post("http://innocent.example.com/")
