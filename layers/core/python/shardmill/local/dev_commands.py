"""What `dev` adds to the emulator's HTTP server: its commands, and API answers that wait for the disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

PREFIX = "/_shardmill/"
API_PREFIX = "/_aws/execute-api/"
_READS = ("GET", "HEAD", "OPTIONS")
Command = Callable[[], Awaitable[None]]


def with_commands(app: Any, commands: Mapping[str, Command]) -> Any:
    """The ASGI application `app` that also runs a command at a POST to its name under PREFIX."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        command = commands.get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None
        if command is None or scope.get("method") != "POST":
            await app(scope, receive, send)
            return
        await command()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return application


def answering_after(app: Any, wait: Command) -> Any:
    """The ASGI application `app`, whose API answers a request that may change something only after `wait`."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def wait_and_send(event: Any) -> None:
            if event["type"] == "http.response.start":
                await wait()
            await send(event)

        changes = scope.get("path", "").startswith(API_PREFIX) and scope.get("method") not in _READS
        await app(scope, receive, wait_and_send if changes else send)

    return application
