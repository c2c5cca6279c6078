"""When a worker beats: regularly, and soon after it turned from idle to busy or back."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

EXTRA_SECONDS = 3.0
"""An extra beat keeps this distance from the one before it, so that a flood of small tasks costs little."""

_SETTLE_SECONDS = 0.2


class Pulse:
    """Awaited by one thread, told of changes by any."""

    def __init__(self, over: Event) -> None:
        self._over = over
        self._woken = Event()
        self._asked = False
        self._told = False
        self._last = float("-inf")

    def turned(self) -> None:
        """It may have become busy, idle, or over."""
        self._woken.set()

    def ask(self) -> None:
        """Whatever it does, Shardmill has something to tell it."""
        self._asked = True
        self._woken.set()

    def beaten(self, busy: bool) -> None:
        """Shardmill knows now that it is busy, or not."""
        self._told, self._asked = busy, False

    def await_next(self, seconds: float, busy: Callable[[], bool]) -> bool:
        """Until the next beat is due, in so many seconds or earlier; False when it is over."""
        due = time.monotonic() + seconds
        while not self._over.is_set():
            now = time.monotonic()
            if now >= due or not self._woken.wait(due - now):
                break
            soonest = max(time.monotonic() + _SETTLE_SECONDS, self._last + EXTRA_SECONDS)
            self._over.wait(max(0.0, min(soonest, due) - time.monotonic()))
            self._woken.clear()
            if self._asked or busy() != self._told:
                break
        self._last = time.monotonic()
        return not self._over.is_set()
