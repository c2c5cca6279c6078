"""What `dev` adds to the emulator: its commands, API answers that wait for the disk, and receive calls that
are woken when a message may have become visible."""

from __future__ import annotations

import asyncio
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


class WaitingReceives:
    """The module `asyncio`, whose `sleep` also ends at `set`; and the event that is set for the pollers."""

    def __init__(self, module: Any, event: Any) -> None:
        self._module = module
        self._event = event
        self._waiting: set[asyncio.Future[None]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait((future,), timeout=seconds)
        finally:
            self._waiting.discard(future)

    def set(self) -> None:
        """Any thread may call it."""
        self._event.set()
        for future in tuple(self._waiting):
            future.get_loop().call_soon_threadsafe(_end, future)


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
