"""Calls of a worker to Shardmill that are retried until they succeed, with counts for its metrics."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock
from typing import TypeVar

from shardmill.transfer.backoff import Backoff, retry
from shardmill.worker.transport.base import Refused, Unreachable

log = logging.getLogger("shardmill.worker")

BACKOFF = Backoff(attempts=None, first_delay=0.2, max_delay=5.0)
T = TypeVar("T")


class _Cancelled(Exception):
    pass


class ServerCalls:
    """Logs when a kind of call starts to fail and when it succeeds again, not each failure."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._failing: set[str] = set()
        self._lock = Lock()

    def until_success(self, name: str, call: Callable[[], T], cancel: Event) -> T | None:
        """Retry a call until it succeeds; None if `cancel` is set before."""

        def attempt() -> T:
            try:
                answer = call()
            except (Unreachable, Refused) as error:
                self.failed(name, error)
                raise
            self.succeeded(name)
            return answer

        def sleep(seconds: float) -> None:
            if cancel.wait(seconds):
                raise _Cancelled

        try:
            return retry(attempt, BACKOFF, on=(Unreachable, Refused), sleep=sleep)
        except _Cancelled:
            return None

    def failed(self, name: str, error: Exception) -> None:
        with self._lock:
            self._calls[name] += 1
            self._failures[name] += 1
            first = name not in self._failing
            self._failing.add(name)
        if first:
            log.warning(
                "a call to Shardmill failed; retrying until it succeeds",
                extra={"action": "call-failing", "call": name, "error": str(error)},
            )

    def succeeded(self, name: str) -> None:
        with self._lock:
            self._calls[name] += 1
            was_failing = name in self._failing
            self._failing.discard(name)
        if was_failing:
            log.info("calls to Shardmill succeed again", extra={"action": "call-recovered", "call": name})

    def counts(self) -> tuple[dict[str, float], dict[str, float]]:
        """The number of calls, and of failed calls, by name."""
        with self._lock:
            return dict(self._calls), dict(self._failures)
