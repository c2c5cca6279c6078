"""Lambda's limits of concurrent invocations: of the account, and of functions with reserved concurrency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Lock

ACCOUNT_LIMIT = 1000


class TooManyRequests(Exception):
    """Lambda refused an invocation; its handler did not run."""

    def __init__(self, reason: str) -> None:
        super().__init__("Rate Exceeded.")
        self.reason = reason


@dataclass
class LambdaConcurrency:
    """Counts the invocations that run, and refuses those beyond a limit.

    A function with reserved concurrency has that much and no more; all others share the rest."""

    limit: int = ACCOUNT_LIMIT
    reserved: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    _running: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)
    _random: Random = field(default_factory=Random)
    _share: float = 0.0

    @contextmanager
    def invocation(self, function: str) -> Iterator[None]:
        """Run one invocation; raises TooManyRequests."""
        with self._lock:
            if self._random.random() < self._share or not self._free(function):
                self.refused += 1
                scope = "ReservedFunctionConcurrent" if function in self.reserved else "Concurrent"
                raise TooManyRequests(f"{scope}InvocationLimitExceeded")
        with self.occupied(function):
            yield

    def _free(self, function: str) -> int:
        if function in self.reserved:
            return self.reserved[function] - self._running[function]
        others = sum(count for name, count in self._running.items() if name not in self.reserved)
        return self.limit - sum(self.reserved.values()) - others

    @contextmanager
    def occupied(self, function: str, count: int = 1) -> Iterator[None]:
        """Let this many invocations of a function run within the block, such as those of other users."""
        with self._lock:
            self._running[function] += count
        try:
            yield
        finally:
            with self._lock:
                self._running[function] -= count

    @contextmanager
    def often_exhausted(self, share: float, seed: int = 0) -> Iterator[None]:
        """Refuse this share of the invocations within the block, as when others come and go."""
        self._random.seed(seed)
        self._share = share
        try:
            yield
        finally:
            self._share = 0.0
