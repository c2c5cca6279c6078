"""Going for something again and again: with growing pauses, in a task's time, telling how far it is."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TypeVar

from shardmill.worker.files.safe_paths import TransferError
from shardmill.worker.task.outcome import DISCARDED, TIMED_OUT
from shardmill.worker.transport.base import TransportError, Unreachable

OLD_SECONDS = 600.0
_TELL_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_MB, _KB = 1_000_000, 1_000
T = TypeVar("T")


class Halted(TransferError):
    """The task was stopped or its time is over: the text is the reason of its finding."""


class Failing(Exception):
    """This try came to nothing; the next may not."""


class Expired(Failing):
    """A signed address is no longer let in."""


class Final(Exception):
    """Trying again changes nothing."""


class Absent(Exception):
    """There is nothing at an address."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`deadline` is a time of `now`; `tries` are those in a row that bring nothing new."""

    tries: int = 5
    first_pause: float = 0.5
    last_pause: float = 20.0
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    deadline: float | None = None
    random: Callable[[], float] = random.random
    now: Callable[[], float] = time.monotonic

    def pause(self, tried: int) -> float:
        """Half of it is left to chance, so that many workers do not come back at once."""
        longest = min(self.last_pause, self.first_pause * 2.0 ** min(tried - 1, 32))
        return longest * (0.5 + self.random() / 2)


class Signed:
    """Addresses that are good for some minutes, and how to have new ones."""

    def __init__(self, renew: Callable[[], None], now: Callable[[], float]) -> None:
        self._renew, self._now = renew, now
        self._since = now()

    @property
    def old(self) -> bool:
        return self._now() - self._since > OLD_SECONDS

    def renew(self) -> None:
        self._renew()
        self._since = self._now()


class Errand:
    def __init__(self, stop: Event, progress: Callable[[str], None], pace: Pace) -> None:
        self.stop, self.pace = stop, pace
        self._progress = progress
        self._told: float | None = None

    def check(self) -> None:
        if self.stop.is_set():
            raise Halted(DISCARDED)
        if self._late:
            raise Halted(TIMED_OUT)

    def rest(self, seconds: float) -> None:
        left = seconds if self.pace.deadline is None else min(seconds, self.pace.deadline - self.pace.now())
        self.stop.wait(max(0.0, left))
        self.check()

    def tell(self, doing: str, done: int, total: int | None) -> None:
        """Says how far it is, once a second at most: `fetching big.txt: 120 of 200 MB`."""
        now = self.pace.now()
        if self._told is not None and now - self._told < _TELL_SECONDS:
            return
        self._told = now
        unit, word = (_MB, "MB") if max(done, total or 0) >= _MB else (_KB, "kB")
        of = "" if total is None else f" of {total / unit:.0f}"
        self._progress(f"{doing}: {done / unit:.0f}{of} {word}")

    def go_on(self, doing: str, done: int, total: int | None) -> None:
        self.check()
        self.tell(doing, done, total)

    def insist(
        self,
        what: str,
        once: Callable[[], T],
        *,
        signed: Signed | None = None,
        moved: Callable[[], int] | None = None,
    ) -> T:
        """Try until it works, or until it failed too often in a row with nothing `moved` by it."""
        tried = in_vain = farthest = 0
        expired = False
        while True:
            self.check()
            try:
                if signed and expired:
                    signed.renew()
                    expired = False
                return once()
            except (Failing, Unreachable) as error:
                self.check()
                tried, in_vain = tried + 1, in_vain + 1
                if moved and moved() > farthest:
                    farthest, in_vain = moved(), 1
                if in_vain >= self.pace.tries:
                    raise TransferError(f"{what}: {error} (tried {tried} times)") from None
                expired = expired or isinstance(error, Expired) or bool(signed and signed.old)
            except (Final, TransportError) as error:
                self.check()
                raise TransferError(f"{what}: {error}") from None
            self.rest(self.pace.pause(in_vain))

    @contextmanager
    def holding(self, connection: socket.socket) -> Iterator[None]:
        """A connection that waits for the other side is ended as soon as the errand is."""
        over = Event()

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                if self.stop.is_set() or self._late:
                    with suppress(OSError):  # it was closed meanwhile
                        socket.socket.shutdown(connection, socket.SHUT_RDWR)
                    return

        watcher = Thread(target=watch, name="transfer-watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    @property
    def _late(self) -> bool:
        return self.pace.deadline is not None and self.pace.now() >= self.pace.deadline
