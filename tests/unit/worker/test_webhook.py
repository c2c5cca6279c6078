"""Webhook requests: which responses count as delivered, and which addresses are rejected."""

import _socket
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


INTERNAL = [
    *("127.8.9.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"),
    *("10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "198.18.0.1", "240.0.0.1", "255.255.255.255"),
    *("224.0.0.251", "ff02::1", "fc00::1", "fd12:3456::1", "fec0::1", "2001:db8::1", "64:ff9b:1::a00:1"),
    *("::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "fe80::1%eth0"),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_addresses_are_rejected_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolve_to(monkeypatch, "8.8.8.8", address)
    with pytest.raises(NotDelivered, match=r"not a public address|link-local"):
        post("https://public.example.com/", loopback=False)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_recognised(address: str) -> None:
    assert webhook.is_public(address)


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "[::ffff:7f00:1]", "localhost", "[::]"]
)
def test_no_notation_of_an_address_reaches_this_machine(
    hook: Receiver, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    port = hook.url.split(":")[2].split("/")[0]
    monkeypatch.setattr(socket, "getaddrinfo", _socket.getaddrinfo)  # without the rule that tests have
    with pytest.raises(NotDelivered, match="not a public address"):
        post(f"http://{host}:{port}/hook", loopback=False)
    assert hook.requests == []


def test_a_dns_answer_that_changes_after_the_check_is_not_used(
    hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name is resolved once, and the address that was checked is the one that is used."""
    answers = iter(["8.8.8.8", "127.0.0.1"])
    connected: list[str] = []

    def refuse(_: socket.socket, address: Any) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved(next(answers)))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(NotDelivered, match="ConnectionRefusedError"):
        post(hook.url.replace("127.0.0.1", "rebinding.example.com"), loopback=False)
    assert connected == ["8.8.8.8"]


def resolved(*addresses: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved(*addresses))


def test_a_name_that_resolves_to_the_metadata_service_is_rejected_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, "169.254.169.254")
    with pytest.raises(NotDelivered, match="link-local"):
        post("http://public.example.com/")
