"""Wait, with a time limit, for other threads and processes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NeverHappened(AssertionError):
    """What the test waited for did not happen in time."""


def run_until(
    predicate: Callable[[], T],
    timeout: float = 10.0,
    interval: float = 0.01,
    meanwhile: Callable[[], object] | None = None,
    describe: Callable[[], object] | None = None,
) -> T:
    """Call `meanwhile` and `predicate` in turn until the predicate is true; return its value."""
    deadline = time.monotonic() + timeout
    while True:
        if meanwhile is not None:
            meanwhile()
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            seen = describe() if describe is not None else f"last value {value!r}"
            raise NeverHappened(f"not true within {timeout} s; {seen}")
        time.sleep(interval)
