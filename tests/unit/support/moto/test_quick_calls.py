"""Calls without what only a network needs: the addresses of requests stay the same."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.endpoint_provider import EndpointProvider
from moto import mock_aws

from support.moto.quick_calls import quick_calls


def _requests() -> list[tuple[str, str]]:
    """The address and the User-Agent of requests of several clients, each made twice."""
    seen: list[tuple[str, str]] = []

    def note(request: Any, **_: Any) -> None:
        seen.append((request.url, str(request.headers["User-Agent"])))

    def client(service: str, **options: Any) -> Any:
        made = boto3.client(service, **options)  # type: ignore[call-overload]
        made.meta.events.register("before-sign", note)
        return made

    for tables in (client("dynamodb"), client("dynamodb", region_name="eu-west-1")):
        for _ in range(2):
            tables.list_tables()
    queues = client("sqs")
    for _ in range(2):
        queues.list_queues()
    machines = client("stepfunctions", endpoint_url="https://states.eu-west-1.amazonaws.com")
    for _ in range(2):
        machines.list_state_machines()
    return seen


def test_the_addresses_of_requests_do_not_change() -> None:
    with mock_aws():
        plain = _requests()
    with quick_calls(), mock_aws():
        quick = _requests()
    assert [address for address, _ in quick] == [address for address, _ in plain]
    assert [agent.split()[0] for _, agent in quick] == [agent.split()[0] for _, agent in plain]
    assert [address.split("/")[2] for address, _ in plain[::2]] == [
        "dynamodb.us-east-1.amazonaws.com",
        "dynamodb.eu-west-1.amazonaws.com",
        "sqs.us-east-1.amazonaws.com",
        "states.eu-west-1.amazonaws.com",
    ]


def test_a_client_resolves_the_endpoint_of_an_operation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[..., Any] = EndpointProvider.resolve_endpoint
    resolved: list[dict[str, Any]] = []

    def resolve(self: EndpointProvider, **given: Any) -> Any:
        resolved.append(given)
        return original(self, **given)

    monkeypatch.setattr(EndpointProvider, "resolve_endpoint", resolve)
    with mock_aws():
        _requests()
    assert len(resolved) == 8, "botocore no longer needs this speedup: remove it"
    resolved.clear()
    with quick_calls(), mock_aws():
        _requests()
    assert len(resolved) == 4
