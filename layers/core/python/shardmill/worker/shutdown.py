"""Bounded waits during the shutdown of a worker; a second signal ends them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from threading import Thread

log = logging.getLogger("shardmill.worker")

POLL_SECONDS = 0.1


class Killed(Exception):
    """A second signal arrived: exit without waiting."""


class ShutdownWaits:
    """`signals` returns the number of signals that have arrived."""

    def __init__(self, signals: Callable[[], int]) -> None:
        self._signals = signals

    def wait(self, wait: Callable[[float], bool], seconds: float) -> bool:
        """Whether `wait`, which is called with short timeouts, succeeds in time. Raises Killed."""
        deadline = time.monotonic() + seconds
        while not wait(min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
            if self._signals() > 1:
                raise Killed
            if time.monotonic() >= deadline:
                return False
        return True

    def join(self, thread: Thread, seconds: float) -> bool:
        """Whether a thread ends in time. Raises Killed."""
        return self.wait(partial(_joined, thread), seconds)

    def join_or_abandon(self, call: Thread, seconds: float) -> None:
        """Wait for the thread of a call to Shardmill, within a time limit."""
        if not self.join(call, seconds):
            log.warning(
                "a call to Shardmill did not return in time; continuing the shutdown",
                extra={"action": "call-abandoned", "call": call.name, "seconds": seconds},
            )


def _joined(thread: Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()
