"""Reference files on this machine: fetched once, shared by its tasks, removed when long unused.

A task has a hard link to an entry: it costs no space, stays when the entry is removed, and counts as its use.
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

from shardmill.model.transfers import Fetch
from shardmill.worker.files.safe_paths import TransferError

_WAIT_SECONDS = 0.05
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}
_TRIM = "trim"


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    used: int
    size: int


class Cache:
    """Files of its folder: `{key}` is an entry, `{key}.part` one on its way.

    `{key}.lock` is held by whoever fills, shares or removes it, says what it was when whole, and its time is
    that of the last use.
    """

    def __init__(self, root: Path, most_bytes: int, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._most = most_bytes
        self._now_ns = now_ns

    def key(self, file: Fetch) -> str | None:
        """What tells a file's content from all others; None where nothing does, or it has no room."""
        if not file.whole or (file.size or 0) > self._most:
            return None
        if file.sha256:
            return file.sha256
        if not file.etag or file.etag.startswith("W/") or file.size is None:
            return None
        words = (file.etag.strip('"'), str(file.size), file.url if file.plain else "")
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    def get(
        self,
        file: Fetch,
        target: Path,
        download: Callable[[Path], None],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> Path:
        """Put a file at `target`, to be read only. Whoever else is fetching it is waited for with `pause`."""
        key = self.key(file)
        if not key:
            raise ValueError(f"{file.name!r} has nothing to be cached by")
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(key, pause) as record:
            entry = self._root / key
            new = not _whole(entry, record)
            if new:
                self.trim(file.size or 0)
                self._fill(entry, record, file, download)
            os.utime(record, ns=(self._now_ns(),) * 2)
            _share(entry, target)
        if new:
            self.trim()
        return target

    def trim(self, coming: int = 0) -> None:
        """Remove what was not used for longest, and is not in use, until there is room."""
        with self._locked(_TRIM, time.sleep):
            entries = sorted(self._entries(), key=lambda entry: entry.used)
            total = coming + sum(entry.size for entry in entries)
            for entry in entries:
                if total <= self._most:
                    return
                if self._remove(entry.key):
                    total -= entry.size

    def _fill(self, entry: Path, record: int, file: Fetch, download: Callable[[Path], None]) -> None:
        part = entry.with_suffix(".part")
        entry.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        try:
            download(part)
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
            except FileNotFoundError:  # removed by hand
                continue

    def _remove(self, key: str) -> bool:
        """Whether it is gone; not if a task has it, or is about to."""
        lock, entry = self._root / f"{key}.lock", self._root / key
        descriptor = _open(lock)
        try:
            if not _taken(descriptor, lock) or (entry.exists() and entry.stat().st_nlink > 1):
                return False
            for path in (entry, entry.with_suffix(".part"), lock):
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
        return True

    @contextmanager
    def _locked(self, key: str, pause: Callable[[float], None]) -> Iterator[int]:
        path = self._root / f"{key}.lock"
        while True:
            descriptor = _open(path)
            try:
                if _taken(descriptor, path):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)
            pause(_WAIT_SECONDS)


def _open(lock: Path) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _taken(descriptor: int, path: Path) -> bool:
    """Whether the lock is ours now, and still the one that others will look for."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _signature(entry: Path) -> bytes:
    found = entry.lstat()
    return f"{found.st_size} {found.st_mtime_ns}".encode()


def _whole(entry: Path, record: int) -> bool:
    """Whether an entry is as it was made: not left half by a crash, nor written to by a task since."""
    try:
        return os.pread(record, 100, 0) == _signature(entry)
    except FileNotFoundError:
        return False


def _verify(part: Path, file: Fetch) -> None:
    with open(part, "rb") as data:
        os.fsync(data.fileno())
        size = os.fstat(data.fileno()).st_size
        right = file.size in (None, size)
        if right and file.sha256:
            right = hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
    if not right:
        raise TransferError(f"{file.kind} {file.name!r} is not kept: its content is not the one expected")


def _share(entry: Path, target: Path) -> None:
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
