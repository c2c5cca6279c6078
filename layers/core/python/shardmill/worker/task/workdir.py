"""The folders of a worker and of its attempts: created for them, and removed with all their content."""

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
CHECKPOINT = "checkpoint"
_REMOVALS = 3
_REMOVAL_DELAY = 0.05
_PREFIX = "shardmill-worker-"
_LOCK = "lock"
"""Locked while the worker runs. A folder without this file is being created, or is kept on purpose."""


@contextmanager
def create_worker_dir(*, keep: bool) -> Iterator[Path]:
    """A folder for one worker; folders of workers that were killed are removed first."""
    remove_stale_dirs()
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


def remove_stale_dirs() -> None:
    """Remove the folders of this user's workers that were killed, and end the programs that they ran."""
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # the folder was removed, or has no lock
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.info(
                "removing the folder of a worker that was killed",
                extra={"action": "stale-folder-removed", "folder": str(root)},
            )
            for record in root.glob(f"*/{SESSION}"):
                process.end_orphan(record)
            process.end_unrecorded(root)
            remove(root)
        except BlockingIOError:  # its worker still runs
            continue
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class TaskDir:
    """The folder of one attempt. The program runs in `work`; `channel` has the files shared with the worker.

    If the program runs as another user, these two belong to that user. The folder itself and everything else
    in it belongs to the worker, so that no task can replace files that the worker reads.
    """

    folder: Path
    work: Path
    channel: Path
    streams: Mapping[Stream, Path]
    user: Identity | None = None

    def write(self, name: str, text: str, *, folder: Path | None = None) -> Path:
        """Create a file that only the task's program can read."""
        return self.write_bytes(name, text.encode(), folder=folder)

    def write_bytes(self, name: str, data: bytes, *, folder: Path | None = None) -> Path:
        path = (folder or self.folder) / name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        self.set_owner(path)
        return path

    def set_owner(self, path: Path) -> None:
        """Give a file to the user that the program runs as, if it is not the worker's."""
        if self.user:
            os.chown(path, self.user.uid, self.user.gid)

    def create(self) -> None:
        self.work.mkdir(mode=0o700)
        self.set_owner(self.work)
        if self.channel != self.folder:
            self.channel.mkdir(mode=0o700)
            self.set_owner(self.channel)
        if self.user:
            for path in (self.folder, self.folder.parent):  # allow traversal, not listing
                path.chmod(path.stat().st_mode | 0o011)


@contextmanager
def create_task_dir(lease: Lease, root: Path, user: Identity | None, *, keep: bool) -> Iterator[TaskDir]:
    folder = Path(tempfile.mkdtemp(prefix=f"{lease.task_id}_{lease.attempt}-", dir=root))
    separate = user or lease.type == "docker" or (lease.command and lease.command.dockerimage)
    channel = folder / "channel" if separate else folder  # most tasks need no separate folder
    streams: dict[Stream, Path] = {"stdout": folder / "stdout", "stderr": folder / "stderr"}
    task_dir = TaskDir(folder, folder / "work", channel, streams, user)
    try:
        task_dir.create()
        yield task_dir
    finally:
        if keep:
            log.info(
                "kept the folder of a task",
                extra={"action": "folder-kept", "folder": str(folder), "task": lease.task_id},
            )
        else:
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder, repeatedly if a process that left the task's session still writes to it."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        _restore_permissions(folder)
        time.sleep(_REMOVAL_DELAY)
    log.warning(
        "failed to remove a folder; remove it by hand",
        extra={"action": "folder-remove-failed", "folder": str(folder)},
    )


def _restore_permissions(folder: Path) -> None:
    """Make the subfolders writable again; a task may have changed their permissions."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(parent, name)
            with suppress(OSError):  # `remove` logs a folder that remains
                if not path.is_symlink():
                    path.chmod(0o700)
