"""Trying again, with growing pauses, and saying so once."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock
from typing import TypeVar

from shardmill.worker.transport.base import Refused, Unreachable

log = logging.getLogger("shardmill.worker")

FIRST_PAUSE, LAST_PAUSE = 0.2, 5.0
T = TypeVar("T")


def a_few_times(call: Callable[[], T]) -> T:
    """For what is worth a little patience and no more."""
    for pause in (FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE):
        try:
            return call()
        except Unreachable:
            time.sleep(pause)
    return call()


class Insistence:
    """Calls of one worker that must succeed in the end."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._failing: set[str] = set()
        self._lock = Lock()

    def until_done(self, what: str, call: Callable[[], T], give_up: Event) -> T | None:
        """The answer of the call, however long it takes; None if we were told to give up."""
        pause = FIRST_PAUSE
        while True:
            try:
                answer = call()
            except (Unreachable, Refused) as error:
                self.failed(what, error)
            else:
                self.worked(what)
                return answer
            if give_up.wait(pause * random.uniform(0.5, 1)):
                return None
            pause = min(pause * 2, LAST_PAUSE)

    def failed(self, what: str, error: Exception) -> None:
        with self._lock:
            self._calls[what] += 1
            self._failures[what] += 1
            first = what not in self._failing
            self._failing.add(what)
        if first:
            log.warning("%s-failing error=%s (trying again until it works)", what, error)

    def worked(self, what: str) -> None:
        with self._lock:
            self._calls[what] += 1
            was_failing = what in self._failing
            self._failing.discard(what)
        if was_failing:
            log.info("%s-works-again", what)

    def counts(self) -> tuple[dict[str, float], dict[str, float]]:
        """How many calls were made, by what they are for, and how many of them failed."""
        with self._lock:
            return dict(self._calls), dict(self._failures)
