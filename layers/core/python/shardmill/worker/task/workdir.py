"""The folder of one attempt: made for it, and removed with all that is in it."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shardmill.model.worker import Lease
from shardmill.worker.logs import Stream
from shardmill.worker.task import process
from shardmill.worker.task.users import Identity

log = logging.getLogger("shardmill.worker")

OUTPUT, PROGRESS, PARAMS, SESSION = "output", "progress", "params.json", "session.json"
_REMOVALS = 3
_REMOVAL_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """`work` is where the program runs, `told` has what it and the worker tell each other.

    Where another user's rights are at work these two belong to that user. The folder itself and all else in
    it stay the worker's, so that no task can put something else in the place of what the worker reads.
    """

    folder: Path
    work: Path
    told: Path
    streams: Mapping[Stream, Path]
    user: Identity | None = None

    def write(self, name: str, text: str, *, folder: Path | None = None) -> Path:
        """A file for the task's program to read, and nobody else."""
        path = (folder or self.folder) / name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        self.give(path)
        return path

    def give(self, path: Path) -> None:
        """To the user whose rights the program has, if that is another."""
        if self.user:
            os.chown(path, self.user.uid, self.user.gid)

    def _open(self) -> None:
        self.work.mkdir(mode=0o700)
        self.give(self.work)
        if self.told != self.folder:
            self.told.mkdir(mode=0o700)
            self.give(self.told)
        if self.user:
            for path in (self.folder, self.folder.parent):  # to pass through, not to look into
                path.chmod(path.stat().st_mode | 0o011)


@contextmanager
def a_place(lease: Lease, root: Path, user: Identity | None, *, keep: bool) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix=f"{lease.task_id}_{lease.attempt}-", dir=root))
    apart = user or lease.type == "docker" or (lease.command and lease.command.dockerimage)
    told = folder / "told" if apart else folder  # a folder less for most tasks
    streams: dict[Stream, Path] = {"stdout": folder / "stdout", "stderr": folder / "stderr"}
    place = Place(folder, folder / "work", told, streams, user)
    try:
        place._open()
        yield place
    finally:
        if keep:
            log.info("kept folder=%s task=%s", folder, lease.task_id)
        else:
            remove(folder)


def remove(folder: Path) -> None:
    """A process that left the task's session may still write here: what it made meanwhile goes too."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        _take_rights(folder)
        time.sleep(_REMOVAL_PAUSE)
    log.warning("folder-left folder=%s", folder)


def _take_rights(folder: Path) -> None:
    """A task may have taken its own rights away; they are given back, so that nothing stays behind."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(parent, name)
            with suppress(OSError):  # what cannot be removed in the end is said once
                if not path.is_symlink():
                    path.chmod(0o700)


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
