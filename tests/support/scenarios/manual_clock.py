"""Clocks that the test sets, for the engine, for moto, and for a worker whose clock is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from unittest.mock import patch

from moto.core import responses
from moto.sqs import models as moto_sqs

BEGIN = 1_800_000_000_000


class ManualClock:
    """The time in milliseconds."""

    def __init__(self) -> None:
        self.ms = BEGIN

    def __call__(self) -> int:
        return self.ms


@dataclass
class SkewedClock:
    """The clock of a machine that is ahead of another clock, or behind it; `offset_ms` may change."""

    clock: Callable[[], int]
    offset_ms: int = 0

    def __call__(self) -> int:
        return self.clock() + self.offset_ms


@contextmanager
def queue_clock(clock: Callable[[], float]) -> Iterator[None]:
    """Let moto use a clock, in milliseconds: its queues for visibility timeouts, delays and retention, and
    all services for the Date of their responses."""
    with (
        patch.object(responses, "utcnow", lambda: datetime.fromtimestamp(clock() / 1000, UTC)),
        patch.object(moto_sqs, "unix_time_millis", lambda: float(clock())),
        patch.object(moto_sqs, "unix_time", lambda: clock() / 1000),
    ):
        yield
