"""Limit the requests of a token: counted in memory, and shared between processes from time to time.

When a process has counted a twentieth of the limit, it adds that to a row and reads the total. So a
token costs at most one write for each twentieth of its limit, and none if it sends few requests. All
processes together accept at most the limit, and a twentieth of it more for each process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 10
PARTS = 20
_MAX_TOKENS = 10_000

Share = Callable[[str, int, int], int | None]
"""Adds to the count of a token in a window; returns the total, or None if it is not known."""


@dataclass(slots=True)
class _Count:
    window: int
    total: int = 0
    own: int = 0
    """The requests that this process counted and has not shared."""


class TokenRates:
    """Counts the requests of tokens. `rate`: requests per second, on average over a window."""

    def __init__(self, rate: int, share: Share) -> None:
        self._limit = rate * WINDOW_SECONDS
        self._part = max(1, self._limit // PARTS)
        self._share = share
        self._counts: dict[str, _Count] = {}

    def wait_seconds(self, token_id: str, now: int) -> int:
        """Count a request; return 0 if it is within the limit, else the seconds until the next attempt."""
        window = now // 1000 // WINDOW_SECONDS
        count = self._counts.get(token_id)
        if not count or count.window != window:
            if len(self._counts) >= _MAX_TOKENS:
                self._counts.clear()
            count = self._counts[token_id] = _Count(window)
        if count.total + count.own >= self._limit:
            return WINDOW_SECONDS - now // 1000 % WINDOW_SECONDS
        count.own += 1
        if count.own >= self._part:
            total = self._share(token_id, window, count.own)
            count.total, count.own = (count.total + count.own if total is None else total), 0
        return 0
