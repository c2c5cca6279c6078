"""Upload the output streams of a task: in pieces while a user follows, the rest when the task ends."""

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
from shardmill.worker.task.channel import LiveStatus

log = logging.getLogger("shardmill.worker")

PIECE_SECONDS = 5.0
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class _Spool:
    """The uploaded part of a stream, in bytes and in chunks."""

    stream: Stream
    path: Path
    sent: int = 0
    chunks: int = 0
    failing: bool = False

    def next(self, *, whole: bool) -> Part | None:
        """The part to upload now: all of it, or `whole` chunks only."""
        end = min(self.path.stat().st_size, logs.MAX_CHUNKS * logs.CHUNK_BYTES)
        if whole:
            end -= (end - self.sent) % logs.CHUNK_BYTES
        return Part(self.path, self.sent, end, self.chunks) if end > self.sent else None


class LogUpload:
    """The upload of one attempt's streams. Its thread starts only when a user follows the log."""

    def __init__(
        self, lease: Lease, store: LogStore | None, streams: Mapping[Stream, Path], live: LiveStatus
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
        """Upload the rest of streams that were uploaded in part or do not fit into the result."""
        self._over.set()
        if self._thread:
            self._thread.join()
        for spool in self._spools:
            if spool.path.exists() and (spool.sent or spool.path.stat().st_size > logs.TAIL_BYTES):
                self._upload(spool, whole=False)

    def poll(self) -> None:
        """Start the thread if a user follows the log; called regularly while the program runs."""
        if self._store and self._live.followed and not self._thread:
            self._thread = Thread(target=self._follow, name=f"log {self._lease.task_id}", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        shown = time.monotonic() - PIECE_SECONDS
        while True:
            now = time.monotonic()
            due = self._live.followed and now - shown >= PIECE_SECONDS
            for spool in self._spools:
                self._upload(spool, whole=not due or spool.chunks >= logs.MAX_PIECES)
            shown = now if due else shown
            if self._over.wait(min(_POLL_SECONDS, PIECE_SECONDS)):
                return

    def _upload(self, spool: _Spool, *, whole: bool) -> None:
        part = spool.next(whole=whole)
        if not self._store or not part:
            return
        try:
            self._store.store(self._lease, spool.stream, part)
        except LogsNotStored as error:
            if not spool.failing:
                failed = {"task": self._lease.task_id, "stream": spool.stream, "error": str(error)}
                log.warning(
                    "failed to upload a log; only its end is kept, in the result of the task",
                    extra={"action": "log-upload-failed", **failed},
                )
            spool.failing = True
            return
        spool.failing = False
        spool.sent, spool.chunks = part.end, part.first + part.count
