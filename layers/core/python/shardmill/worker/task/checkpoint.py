"""The checkpoint of a task: a small file that it writes, saved for the next attempt at the task.

A task without checkpoints costs one check of its folder each second.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

from shardmill.model.transfers import MAX_CHECKPOINT_BYTES
from shardmill.model.worker import Lease
from shardmill.worker.logs import fitting
from shardmill.worker.outcome import DISCARDED, TIMED_OUT, AttemptOutcome, TaskRejected
from shardmill.worker.task.channel import read_regular
from shardmill.worker.task.workdir import CHECKPOINT, TaskDir
from shardmill.worker.transport.base import FileUrls, TransportError, retry_briefly

log = logging.getLogger("shardmill.worker")

SAVE_SECONDS = 10.0
"""The shortest interval between two saves while the task runs."""

Version = tuple[int, int, int]


class Checkpoint:
    """Saves the checkpoint of one attempt. Its thread runs only while a save is in progress."""

    def __init__(self, lease: Lease, task_dir: TaskDir, store: FileUrls | None) -> None:
        self._lease = lease
        self._path = task_dir.channel / CHECKPOINT
        self._task_dir = task_dir
        self._store = store
        self._saved: Version | None = None
        self._looked = float("-inf")
        self._thread: Thread | None = None
        self._problem = ""

    def restore(self) -> None:
        """Write the checkpoint of an earlier attempt; raise TaskRejected if it cannot be read."""
        store = self._store
        if not store or not self._lease.retried:
            return
        try:
            found = retry_briefly(lambda: store.load_checkpoint(self._lease))
        except TransportError as error:
            raise TaskRejected(f"the checkpoint of an earlier attempt cannot be read: {error}") from error
        if found is not None:
            self._task_dir.write_bytes(CHECKPOINT, found, folder=self._task_dir.channel)
            self._saved = _version(self._path)

    def poll(self) -> None:
        """Save the file in a thread if it changed; called regularly while the program runs."""
        now = time.monotonic()
        busy = self._thread is not None and self._thread.is_alive()
        if busy or now - self._looked < SAVE_SECONDS or _version(self._path) in (None, self._saved):
            return
        self._looked = now
        self._thread = Thread(target=self._save, name=f"checkpoint {self._lease.task_id}", daemon=True)
        self._thread.start()

    def finish(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """Save the file of an attempt that did not succeed. If that fails, its reason or stderr says so."""
        if self._thread:
            self._thread.join()
        if outcome.outcome == "success":
            return outcome
        self._save()
        if not self._problem:
            return outcome
        if outcome.reason in (TIMED_OUT, DISCARDED):  # the engine reads these reasons
            return replace(outcome, stderr=fitting(f"{outcome.stderr or ''}\nshardmill: {self._problem}\n"))
        return replace(outcome, reason=f"{outcome.reason}; {self._problem}")

    def _save(self) -> None:
        version = _version(self._path)
        store = self._store
        if not store or version in (None, self._saved):
            return
        try:
            data = read_regular(self._path, MAX_CHECKPOINT_BYTES + 1)
            if len(data) > MAX_CHECKPOINT_BYTES:
                size = self._path.lstat().st_size
                self._fail(f"it has {size} bytes, and the maximum is {MAX_CHECKPOINT_BYTES}")
                return
            retry_briefly(lambda: store.save_checkpoint(self._lease, data))
        except (TransportError, OSError) as error:
            self._fail(str(error))
            return
        self._saved, self._problem = version, ""

    def _fail(self, why: str) -> None:
        problem = f"its checkpoint was not saved: {why}"
        if problem != self._problem:
            failed = {"task": self._lease.task_id, "attempt": self._lease.attempt, "error": why}
            log.warning(
                "failed to save a checkpoint; the next attempt gets the one before it",
                extra={"action": "checkpoint-not-saved", **failed},
            )
        self._problem = problem


def _version(path: Path) -> Version | None:
    """A value that changes with each write of a file; None if there is no file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
