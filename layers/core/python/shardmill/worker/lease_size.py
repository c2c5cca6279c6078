"""How many tasks a worker leases at once."""

from __future__ import annotations

import time
from collections.abc import Iterable

from shardmill.model.worker import MAX_BATCH

SHORT_SECONDS = 0.2
"""Tasks that take longer on average are leased only when a slot is free."""

VERY_SHORT_SECONDS = 0.02
"""Tasks that take less on average are leased in whole batches of `largest`: they soon get a slot."""

_WEIGHT = 0.2


class LeaseSize:
    """One task per free slot, or full batches while tasks are short. Not thread-safe.

    `remaining` is the number of tasks that the worker may still take; None means no limit. `largest` is the
    maximum number of tasks that one call leases.
    """

    def __init__(self, slots: int, remaining: int | None) -> None:
        self._slots = slots
        self.remaining = remaining
        self.largest = MAX_BATCH
        self._average: float | None = None

    def record(self, seconds: float) -> None:
        """Update the moving average with the duration of a task."""
        average = seconds if self._average is None else self._average
        self._average = average + _WEIGHT * (seconds - average)

    def add_remaining(self, count: int) -> None:
        if self.remaining is not None:
            self.remaining += count

    def tasks_are_short(self, running_since: Iterable[float | None]) -> bool:
        if self._average is None or self._average >= SHORT_SECONDS:
            return False
        oldest = time.monotonic() - SHORT_SECONDS
        return all(started is None or started > oldest for started in running_since)

    def limit(self, *, short: bool) -> int:
        """How many tasks may wait and run at the same time."""
        return max(self._slots, self._batch) if short else self._slots

    @property
    def _batch(self) -> int:
        """A full batch of short tasks."""
        very_short = self._average is not None and self._average < VERY_SHORT_SECONDS
        return self.largest if very_short else MAX_BATCH

    def room(self, occupied: int, *, short: bool) -> int:
        """How many tasks to lease while `occupied` tasks wait or run."""
        largest = self.largest if self.remaining is None else min(self.largest, self.remaining)
        return min(largest, self.limit(short=short) - occupied)
