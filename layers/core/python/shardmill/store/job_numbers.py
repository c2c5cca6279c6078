"""The numbers of jobs (`jid`): they grow, with gaps, in the order of submission to within a second."""

from __future__ import annotations

from threading import Lock

from shardmill.store import keys
from shardmill.store.table import Table
from shardmill.store.update import Update

KEEP_MS = 1_000
_MOST = 64


class JobNumbers:
    """Hands out numbers of one counter.

    A row takes 1,000 writes a second, so a process that submits many jobs reserves several numbers at a time,
    about as many as it needs in a second. It uses them within a second: of two jobs submitted more than a
    second apart, the later one has the larger number, and lists show it first.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lock = Lock()
        self._reserved_at = -2 * KEEP_MS
        self._next = self._end = self._first = 0

    def reserve(self, count: int) -> int:
        """Reserve `count` consecutive numbers; returns the first."""
        answer = self._table.update(Update(keys.job_counter()).add(value=count), returns="UPDATED_NEW")
        return int(answer["value"]) - count + 1

    def next(self, now: int) -> int:
        with self._lock:
            if self._next == self._end or not 0 <= now - self._reserved_at < KEEP_MS:
                self._refill(now)
            self._next += 1
            return self._next - 1

    def _refill(self, now: int) -> None:
        used = self._next - self._first
        recent = 0 <= now - self._reserved_at < 2 * KEEP_MS
        count = min(_MOST, 2 * used) if recent and used else 1
        self._first = self._next = self.reserve(count)
        self._end = self._first + count
        self._reserved_at = now
