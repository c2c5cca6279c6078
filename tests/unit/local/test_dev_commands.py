"""The commands of `dev` beside the AWS APIs, and which answers wait for the disk."""

import asyncio
from typing import Any

import pytest

from shardmill.local.dev_commands import API_PREFIX, PREFIX, answering_after, with_commands


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"aws"})


def events_of(application: Any, method: str, path: str, seen: list[Any]) -> list[Any]:
    async def send(event: Any) -> None:
        seen.append(event.get("status", event.get("body")))

    asyncio.run(application({"type": "http", "method": method, "path": path}, None, send))
    return seen


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", f"{PREFIX}save", ["saved", 204, b""]),
        ("GET", f"{PREFIX}save", [200, b"aws"]),
        ("POST", f"{PREFIX}other", [200, b"aws"]),
        ("POST", "/", [200, b"aws"]),
    ],
)
def test_a_command_is_a_post_to_its_name(method: str, path: str, expected: list[Any]) -> None:
    seen: list[Any] = []

    async def save() -> None:
        seen.append("saved")

    assert events_of(with_commands(app, {"save": save}), method, path, seen) == expected


@pytest.mark.parametrize(
    ("method", "path", "waits"),
    [
        ("POST", f"{API_PREFIX}abc/v1/jobs", True),
        ("DELETE", f"{API_PREFIX}abc/v1/jobs/a/b", True),
        ("GET", f"{API_PREFIX}abc/v1/jobs", False),
        ("POST", "/", False),
    ],
)
def test_the_api_answers_a_change_after_it_is_on_the_disk(method: str, path: str, waits: bool) -> None:
    seen: list[Any] = []

    async def wait() -> None:
        seen.append("on the disk")

    expected = ["on the disk"] if waits else []
    assert events_of(answering_after(app, wait), method, path, seen) == [*expected, 200, b"aws"]
