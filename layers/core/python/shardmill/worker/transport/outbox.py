"""Results that wait for the next lease call, so that one request reports them and leases the next tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Condition

from shardmill.model.worker import Reported, Result


class PendingReport:
    """Results of one report call, and their answers."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)
        self.taken = False
        self.answer: list[Reported] | Exception | None = None


class Outbox:
    """Hands the results of the reporting thread to the leasing thread, if the latter makes a call soon."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._pending: PendingReport | None = None
        self._expected = False

    def expect_lease(self, expected: bool) -> None:
        """Whether messages have arrived, so that a lease call follows."""
        with self._changed:
            self._expected = expected
            self._changed.notify_all()

    def offer(self, results: Sequence[Result], seconds: float) -> list[Reported] | None:
        """Wait for a lease call to take results along, and return their answers.

        None if there was none within that time: the caller reports them itself. Raises the exception of the
        call.
        """
        pending = PendingReport(results)
        deadline = time.monotonic() + seconds
        with self._changed:
            self._pending = pending
            while not pending.taken:
                left = deadline - time.monotonic()
                if left <= 0 and not self._expected:
                    self._pending = None
                    return None
                self._changed.wait(left if left > 0 else None)
            self._changed.wait_for(lambda: pending.answer is not None)
        if isinstance(pending.answer, Exception):
            raise pending.answer
        return pending.answer

    def take(self) -> PendingReport | None:
        """The results that wait. The caller must answer them."""
        with self._changed:
            pending, self._pending = self._pending, None
            if pending:
                pending.taken = True
                self._changed.notify_all()
            return pending

    def answer(self, pending: PendingReport, answer: list[Reported] | Exception) -> None:
        with self._changed:
            pending.answer = answer
            self._changed.notify_all()
