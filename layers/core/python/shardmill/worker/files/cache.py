"""A cache of reference files on this machine, shared by its tasks and limited in size.

A task gets a hard link to an entry. The link needs no space, remains when the entry is removed, and marks the
entry as in use.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shardmill.model.transfers import Fetch
from shardmill.worker.files.safe_paths import TransferError

_POLL_SECONDS = 0.05
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}
_TRIM = "trim"


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    used: int
    size: int


class Cache:
    """Files in a folder: `{key}` is an entry, `{key}.part` an unfinished one.

    `{key}.lock` is locked while an entry is filled, linked or removed. It records the size and time of the
    complete entry, and its own modification time is the last use.
    """

    def __init__(self, root: Path, max_bytes: int, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._now_ns = now_ns

    def key(self, file: Fetch) -> str | None:
        """A key that identifies the content of a file; None if there is none or the file is too large."""
        if not file.whole or (file.size or 0) > self._max_bytes:
            return None
        if file.sha256:
            return file.sha256
        if not file.etag or file.etag.startswith("W/") or file.size is None:
            return None
        identity = (file.etag.strip('"'), str(file.size), file.url if file.plain else "")
        return hashlib.sha256("\0".join(identity).encode()).hexdigest()

    def get(
        self,
        file: Fetch,
        target: Path,
        download: Callable[[BinaryIO], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Path:
        """Link a read-only file to `target`, downloading it first if needed.

        While another task or worker downloads the same file, waits with `sleep`.
        """
        key = self.key(file)
        if not key:
            raise ValueError(f"{file.name!r} has no key to be cached under")
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(key, sleep) as record:
            entry = self._root / key
            new = not _complete(entry, record)
            if new:
                self.trim(file.size or 0)
                self._fill(entry, record, file, download)
            os.utime(record, ns=(self._now_ns(),) * 2)
            _link(entry, target)
        if new:
            self.trim()
        return target

    def trim(self, needed: int = 0) -> None:
        """Remove the least recently used entries that no task uses until `needed` bytes are free."""
        with self._locked(_TRIM, time.sleep):
            entries = sorted(self._entries(), key=lambda entry: entry.used)
            total = needed + sum(entry.size for entry in entries)
            for entry in entries:
                if total <= self._max_bytes:
                    return
                if self._remove(entry.key):
                    total -= entry.size

    def _fill(self, entry: Path, record: int, file: Fetch, download: Callable[[BinaryIO], None]) -> None:
        part = entry.with_suffix(".part")
        entry.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        try:
            with part.open("wb") as out:
                download(out)
            _verify(part, file)
            part.chmod(0o444)
            part.replace(entry)
        finally:
            part.unlink(missing_ok=True)
        os.ftruncate(record, 0)
        os.pwrite(record, _signature(entry), 0)

    def _entries(self) -> Iterator[_Entry]:
        for lock in self._root.glob("*.lock"):
            if lock.stem == _TRIM:
                continue
            sizes = [_size(lock.with_suffix(suffix)) for suffix in ("", ".part")]
            try:
                yield _Entry(lock.stem, lock.stat().st_mtime_ns, sum(sizes))
            except FileNotFoundError:  # removed by another process
                continue

    def _remove(self, key: str) -> bool:
        """Remove an entry unless a task uses it or it is locked; return whether it was removed."""
        lock, entry = self._root / f"{key}.lock", self._root / key
        descriptor = _open(lock)
        try:
            if not _acquire(descriptor, lock) or (entry.exists() and entry.stat().st_nlink > 1):
                return False
            for path in (entry, entry.with_suffix(".part"), lock):
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
        return True

    @contextmanager
    def _locked(self, key: str, sleep: Callable[[float], None]) -> Iterator[int]:
        path = self._root / f"{key}.lock"
        while True:
            descriptor = _open(path)
            try:
                if _acquire(descriptor, path):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)
            sleep(_POLL_SECONDS)


def _open(lock: Path) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _acquire(descriptor: int, path: Path) -> bool:
    """Lock a file without waiting; False also if the path no longer refers to it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _signature(entry: Path) -> bytes:
    found = entry.lstat()
    return f"{found.st_size} {found.st_mtime_ns}".encode()


def _complete(entry: Path, record: int) -> bool:
    """Whether an entry is unchanged since it was filled: not cut off by a crash, not written to by a task."""
    try:
        return os.pread(record, 100, 0) == _signature(entry)
    except FileNotFoundError:
        return False


def _verify(part: Path, file: Fetch) -> None:
    with open(part, "rb") as data:
        os.fsync(data.fileno())
        size = os.fstat(data.fileno()).st_size
        valid = file.size in (None, size)
        if valid and file.sha256:
            valid = hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
    if not valid:
        raise TransferError(f"{file.kind} {file.name!r} is not cached: its content is not the expected one")


def _link(entry: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(entry, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(entry, target)
        target.chmod(0o444)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0
