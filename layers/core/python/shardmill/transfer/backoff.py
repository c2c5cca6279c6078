"""Retries of network calls: exponential backoff with jitter, for the worker and the client."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class Backoff:
    """`attempts` counts consecutive attempts without progress; None retries without limit."""

    attempts: int | None = 5
    first_delay: float = 0.2
    max_delay: float = 5.0
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many consecutive failures.

        Half of the delay is random, so that clients that failed together do not all retry together.
        """
        longest = min(self.max_delay, self.first_delay * 2.0 ** min(failures - 1, 32))
        return longest * (0.5 + self.random() / 2)


def retry(
    call: Callable[[], T],
    backoff: Backoff,
    on: Errors,
    *,
    sleep: Callable[[float], None] | None = None,
    progress: Callable[[], int] | None = None,
    retry_after: Callable[[Exception], float] | None = None,
) -> T:
    """Call until it succeeds, retrying the exceptions `on`; raise the last one when attempts run out.

    `progress` returns a number that grows while something is achieved; growth starts the count of attempts
    again. `retry_after` returns the seconds that the server asks for, honoured up to `max_delay`.
    """
    failures = reached = 0
    while True:
        try:
            return call()
        except on as error:
            failures += 1
            if progress and progress() > reached:
                reached, failures = progress(), 1
            if backoff.attempts is not None and failures >= backoff.attempts:
                raise
            delay = backoff.delay(failures)
            if retry_after:
                delay = min(max(delay, retry_after(error)), backoff.max_delay)
        (sleep or time.sleep)(delay)
