"""The folder under which a worker has those of its tasks, and what is left of one whose worker was killed."""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardmill.worker import process
from shardmill.worker.place import SESSION, remove

log = logging.getLogger("shardmill.worker")

_PREFIX = "shardmill-worker-"
_LOCK = "lock"
"""Locked while the worker lives; a folder without it is being made, or to be kept."""


@contextmanager
def a_root(*, keep: bool) -> Iterator[Path]:
    """A folder of one's own for as long as one lives; what dead workers left behind is cleared away."""
    clear_left()
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if keep:
        yield root
        return
    with (root / "unlocked").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(lock.name).rename(root / _LOCK)
        try:
            yield root
        finally:
            remove(root)


def clear_left() -> None:
    """Remove the folders of this user's workers that were killed, and end the programs that they ran."""
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # no folder, or none with a lock
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.info("clearing folder=%s: its worker was killed", root)
            for record in root.glob(f"*/{SESSION}"):
                process.end_left(record)
            remove(root)
        except BlockingIOError:  # it lives
            continue
        finally:
            os.close(descriptor)
