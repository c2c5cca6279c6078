"""A clock that the test sets, for the engine and for moto's queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from moto.sqs import models as moto_sqs

BEGIN = 1_800_000_000_000


class ManualClock:
    """The time in milliseconds."""

    def __init__(self) -> None:
        self.ms = BEGIN

    def __call__(self) -> int:
        return self.ms


@contextmanager
def queue_clock(clock: Callable[[], float]) -> Iterator[None]:
    """Let moto's queues use a clock, in milliseconds, for visibility timeouts, delays and retention."""
    with (
        patch.object(moto_sqs, "unix_time_millis", lambda: float(clock())),
        patch.object(moto_sqs, "unix_time", lambda: clock() / 1000),
    ):
        yield
