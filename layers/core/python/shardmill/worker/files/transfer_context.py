"""The context of one task's transfers: its stop signal and deadline, retries, and progress reports."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TypeVar

from shardmill.transfer.backoff import Backoff, retry
from shardmill.transfer.exchange import ExpiredUrl, ObjectNotFound, PermanentError, RetryableError
from shardmill.worker.files.safe_paths import TransferError
from shardmill.worker.outcome import DISCARDED, TIMED_OUT
from shardmill.worker.transport.base import TransportError, Unreachable

URL_SECONDS = 600.0
"""Presigned URLs are considered old after this time, before they expire."""

_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_MB, _KB = 1_000_000, 1_000
T = TypeVar("T")


class TransferInterrupted(TransferError):
    """The task was stopped or timed out; the message is the reason of its outcome."""


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """`deadline` is a value of the clock `now`."""

    backoff: Backoff = Backoff(attempts=5, first_delay=0.5, max_delay=20.0)
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    deadline: float | None = None
    now: Callable[[], float] = time.monotonic


class PresignedUrls:
    """URLs that expire, and the call that renews them."""

    def __init__(self, renew: Callable[[], None], now: Callable[[], float]) -> None:
        self._renew, self._now = renew, now
        self._since = now()

    def is_old(self) -> bool:
        return self._now() - self._since > URL_SECONDS

    def renew(self) -> None:
        self._renew()
        self._since = self._now()


class TransferContext:
    def __init__(self, stop: Event, progress: Callable[[str], None], settings: TransferSettings) -> None:
        self.settings = settings
        self._stop = stop
        self._progress = progress
        self._reported: float | None = None

    def check(self) -> None:
        """Raise TransferInterrupted if the task was stopped or has timed out."""
        if self._stop.is_set():
            raise TransferInterrupted(DISCARDED)
        if self._timed_out:
            raise TransferInterrupted(TIMED_OUT)

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until the task is stopped or times out."""
        deadline, now = self.settings.deadline, self.settings.now
        self._stop.wait(max(0.0, seconds if deadline is None else min(seconds, deadline - now())))
        self.check()

    def report(self, action: str, done: int, total: int | None) -> None:
        """Report progress at most once a second, such as `downloading big.txt: 120 of 200 MB`."""
        now = self.settings.now()
        if self._reported is not None and now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        unit, word = (_MB, "MB") if max(done, total or 0) >= _MB else (_KB, "kB")
        of = "" if total is None else f" of {total / unit:.0f}"
        self._progress(f"{action}: {done / unit:.0f}{of} {word}")

    def check_and_report(self, action: str, done: int, total: int | None) -> None:
        self.check()
        self.report(action, done, total)

    def retry(
        self,
        failure: str,
        call: Callable[[], T],
        *,
        presigned: PresignedUrls | None = None,
        progress: Callable[[], int] | None = None,
    ) -> T:
        """Call until it succeeds. Raises TransferError, whose message begins with `failure`."""
        attempts = 0
        expired = False

        def attempt() -> T:
            nonlocal attempts, expired
            self.check()
            attempts += 1
            try:
                if presigned and expired:
                    presigned.renew()
                    expired = False
                return call()
            except (RetryableError, Unreachable) as error:
                expired = expired or isinstance(error, ExpiredUrl) or bool(presigned and presigned.is_old())
                self.check()
                raise

        try:
            return retry(
                attempt,
                self.settings.backoff,
                on=(RetryableError, Unreachable),
                sleep=self.sleep,
                progress=progress,
            )
        except ObjectNotFound:
            raise
        except (RetryableError, Unreachable) as error:
            raise TransferError(f"{failure}: {error} (tried {attempts} times)") from None
        except (PermanentError, TransportError) as error:
            self.check()
            raise TransferError(f"{failure}: {error}") from None

    @contextmanager
    def interrupting(self, connection: socket.socket) -> Iterator[None]:
        """Shut the connection down as soon as the task is stopped or times out."""
        finished = Event()

        def watch() -> None:
            while not finished.wait(_POLL_SECONDS):
                if self._stop.is_set() or self._timed_out:
                    with suppress(OSError):  # closed in the meantime
                        socket.socket.shutdown(connection, socket.SHUT_RDWR)
                    return

        watcher = Thread(target=watch, name="transfer-watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()

    @property
    def _timed_out(self) -> bool:
        return self.settings.deadline is not None and self.settings.now() >= self.settings.deadline
