"""Receive calls that wait at a queue of the emulator, woken when a message may have become visible."""

from __future__ import annotations

import asyncio
from typing import Any


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
