"""Optimistic concurrency: read, decide, write on condition, and start over if another writer was faster."""

from __future__ import annotations

from shardmill.engine.errors import Busy

MAX_ATTEMPTS = 6


class Attempts:
    """Limits how often a use case starts over after a failed conditional write.

    attempts = Attempts("the job")
    while True:
        attempts.begin()
        row = read()
        if write(row):
            return row
    """

    def __init__(self, subject: str, most: int = MAX_ATTEMPTS) -> None:
        self._subject = subject
        self._left = most

    def begin(self) -> None:
        """Begin another attempt; raises Busy if all of them failed."""
        if self._left <= 0:
            raise Busy(f"{self._subject} is being modified concurrently; retry")
        self._left -= 1
