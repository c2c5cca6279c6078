"""Storing what a task writes: piece by piece while somebody follows, the rest at its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Self

from shardmill.model.worker import Lease
from shardmill.worker import logs
from shardmill.worker.logs import LogsNotStored, LogStore, Part, Stream
from shardmill.worker.task.channel import Live

log = logging.getLogger("shardmill.worker")

PIECE_SECONDS = 5.0
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class _Spool:
    """How much of a stream is stored: so many bytes, in so many chunks."""

    stream: Stream
    path: Path
    sent: int = 0
    chunks: int = 0
    failing: bool = False

    def next(self, *, whole: bool) -> Part | None:
        """What is to be stored now: all there is, or `whole` chunks only."""
        end = min(self.path.stat().st_size, logs.MAX_CHUNKS * logs.CHUNK_BYTES)
        if whole:
            end -= (end - self.sent) % logs.CHUNK_BYTES
        return Part(self.path, self.sent, end, self.chunks) if end > self.sent else None


class LogFeed:
    """One for an attempt. Its thread starts only when somebody follows, so that most tasks have none."""

    def __init__(
        self, lease: Lease, store: LogStore | None, streams: Mapping[Stream, Path], live: Live
    ) -> None:
        self._lease = lease
        self._store = store
        self._spools = [_Spool(stream, path) for stream, path in streams.items()]
        self._live = live
        self._over = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The program has ended: the rest of what was begun follows, and what is too long for the result."""
        self._over.set()
        if self._thread:
            self._thread.join()
        for spool in self._spools:
            if spool.path.exists() and (spool.sent or spool.path.stat().st_size > logs.TAIL_BYTES):
                self._keep(spool, whole=False)

    def look(self) -> None:
        """Called now and then while the program runs."""
        if self._store and self._live.followed and not self._thread:
            self._thread = Thread(target=self._follow, name=f"log {self._lease.task_id}", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        shown = time.monotonic() - PIECE_SECONDS
        while True:
            now = time.monotonic()
            due = self._live.followed and now - shown >= PIECE_SECONDS
            for spool in self._spools:
                self._keep(spool, whole=not due or spool.chunks >= logs.MOST_PIECES)
            shown = now if due else shown
            if self._over.wait(min(_LOOK_SECONDS, PIECE_SECONDS)):
                return

    def _keep(self, spool: _Spool, *, whole: bool) -> None:
        part = spool.next(whole=whole)
        if not self._store or not part:
            return
        try:
            self._store.store(self._lease, spool.stream, part)
        except LogsNotStored as error:
            if not spool.failing:
                log.warning(
                    "log-not-stored task=%s stream=%s error=%s", self._lease.task_id, spool.stream, error
                )
            spool.failing = True
            return
        spool.failing = False
        spool.sent, spool.chunks = part.end, part.first + part.count
