"""Local files that are to come with a Job: looked at, measured, and read while they are sent."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shardmill.client.errors import BadFile
from shardmill.client.store import Progress
from shardmill.model.transfers import MAX_UPLOAD_BYTES

PIECE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Measured:
    """A file as it was when it was read; what is sent is sure to be the same."""

    path: Path
    size: int
    sha256: str
    progress: Progress | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Its bytes, as often as one likes; the last of them only if all are those that were measured."""
        found, last = hashlib.sha256(), b""
        for piece, sent in _pieces(self.path, self.size):
            if last:
                yield last
            found.update(piece)
            last = piece
            if self.progress:
                self.progress(f"sending {self.path.name}", sent, self.size)
        if found.hexdigest() != self.sha256:
            raise _changed(self.path)
        yield last


def check(path: Path) -> None:
    """Raises BadFile unless a file can come with a Job."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(found.st_mode):
        raise BadFile(f"{path} is a folder: pack it into one file first, for example with tar")
    if not stat.S_ISREG(found.st_mode):
        raise BadFile(f"{path} is no plain file: write what comes out of it to one first")
    if found.st_size > MAX_UPLOAD_BYTES:
        raise BadFile(
            f"{path} has {found.st_size / 2**30:.1f} GiB, and a file that comes with a Job "
            f"{MAX_UPLOAD_BYTES // 2**30} at most: put it into a bucket, and let the step's input say "
            "where with 's3: {bucket, key}'"
        )
    if not os.access(path, os.R_OK):
        raise BadFile(f"cannot read {path}: Permission denied")


def measured(path: Path, progress: Progress | None) -> Measured:
    """Read a file once, for its size and checksum. Raises BadFile."""
    check(path)
    size, found = path.stat().st_size, hashlib.sha256()
    for piece, done in _pieces(path, size):
        found.update(piece)
        if progress:
            progress(f"reading {path.name}", done, size)
    return Measured(path, size, found.hexdigest(), progress)


def _pieces(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """Pieces of a file of that size, and how far each leads."""
    done = 0
    try:
        with path.open("rb") as file:
            while done < size:
                piece = file.read(min(PIECE_BYTES, size - done))
                if not piece:
                    raise _changed(path)
                done += len(piece)
                yield piece, done
            if file.read(1):
                raise _changed(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def _changed(path: Path) -> BadFile:
    return BadFile(f"{path} changed while it was read: submit again when nothing writes to it")


def _unreadable(path: Path, error: OSError | ValueError) -> BadFile:
    return BadFile(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")
