"""Files of this machine that are uploaded, or that downloads are written to."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from shardmill.client.errors import BadFile
from shardmill.model.files import leaves_work_folder
from shardmill.model.transfers import MAX_UPLOAD_BYTES
from shardmill.transfer.download import atomic_file
from shardmill.transfer.upload import FileTruncated, read_range

Progress = Callable[[str, int, int], None]
"""Called with a description of the transfer, the bytes transferred so far, and the total."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A file with its size and checksum. Iterating over it yields its bytes, any number of times.

    The last piece is yielded only if the content is still the one that was measured.
    """

    path: Path
    size: int
    sha256: str
    progress: Progress | None = None

    def __iter__(self) -> Iterator[bytes]:
        found, last = hashlib.sha256(), b""
        for piece, sent in _pieces(self.path, self.size):
            if last:
                yield last
            found.update(piece)
            last = piece
            if self.progress:
                self.progress(f"uploading {self.path.name}", sent, self.size)
        if found.hexdigest() != self.sha256:
            raise _changed(self.path)
        yield last


def check_upload(path: Path) -> None:
    """Raises BadFile if a file cannot be uploaded."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(found.st_mode):
        raise BadFile(f"{path} is a folder: pack it into one file first, for example with tar")
    if not stat.S_ISREG(found.st_mode):
        raise BadFile(f"{path} is not a regular file: write its content to one first")
    if found.st_size > MAX_UPLOAD_BYTES:
        raise BadFile(
            f"{path} has {found.st_size / 2**30:.1f} GiB; the maximum for an upload is "
            f"{MAX_UPLOAD_BYTES // 2**30} GiB: put it into a bucket, and name it in the step's input with "
            "'s3: {bucket, key}'"
        )
    if not os.access(path, os.R_OK):
        raise BadFile(f"cannot read {path}: Permission denied")


def measure(path: Path, progress: Progress | None) -> MeasuredFile:
    """Read a file once for its size and checksum. Raises BadFile."""
    check_upload(path)
    size, found = path.stat().st_size, hashlib.sha256()
    for piece, done in _pieces(path, size):
        found.update(piece)
        if progress:
            progress(f"reading {path.name}", done, size)
    return MeasuredFile(path, size, found.hexdigest(), progress)


def _pieces(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """The pieces of a file that has exactly this size, each with the offset of its end."""
    done = 0
    try:
        with path.open("rb") as file:
            for piece in read_range(file, 0, size):
                done += len(piece)
                yield piece, done
            if file.read(1):
                raise _changed(path)
    except FileTruncated:
        raise _changed(path) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _changed(path: Path) -> BadFile:
    return BadFile(f"{path} changed while it was read: submit again when nothing writes to it")


def _unreadable(path: Path, error: OSError | ValueError) -> BadFile:
    return BadFile(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def path_inside(folder: Path, name: str) -> Path:
    """The path of a file in a folder. Raises BadFile if the name, which a Job chose, leads out of it."""
    if leaves_work_folder(name):
        raise BadFile(f"cannot write the file {name!r}: its name leads out of the folder {folder}")
    parts = PurePosixPath(name).parts
    path = folder
    for part in parts[:-1]:
        path /= part
        if path.is_symlink():
            raise BadFile(
                f"cannot write the file {name!r}: {path} is a link, which may lead out of the folder"
            )
    return path / parts[-1]


def check_target(path: Path, *, force: bool) -> None:
    """Raises BadFile if a path cannot be written to, or exists and `force` is not set."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    if stat.S_ISDIR(found):
        raise BadFile(f"cannot write {path}: it is a folder")
    if not stat.S_ISREG(found) and not stat.S_ISLNK(found):
        raise BadFile(f"cannot write {path}: it is not a regular file")
    if not force:
        raise BadFile(f"{path} already exists: choose another path, or overwrite it with force")


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file to write, which appears at its path only if the block succeeds. Raises BadFile."""
    check_target(path, force=force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, mode=0o666) as out:
            yield out
            check_target(path, force=force)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError | ValueError) -> BadFile:
    return BadFile(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")
