"""The journal of the emulator: what changed since the last snapshot, written before the request is answered.

A snapshot begins a new file, and the older files are removed when it is complete. A record contains the new
value, not the change, so records that a snapshot already contains can be applied again.

A written record survives the death of every process. To survive a power failure, it must also be synced to
the disk: the API's answers wait for one sync together, the AWS services' answers do not wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from shardmill.local.saved_state import CorruptState, reason_of, sync_folder

Record = list[Any]


def exit_unwritable(error: OSError) -> NoReturn:
    """Exit without answering the waiting requests: a change that was not written was not accepted."""
    os.write(2, f"the journal cannot be written ({reason_of(error)})\n".encode())
    os._exit(1)


class Journal:
    def __init__(self, folder: Path, on_error: Callable[[OSError], Any] = exit_unwritable) -> None:
        self._folder = folder
        self._on_error = on_error
        self._number = max((_number(file) for file in self._files()), default=0) + 1
        self._started = False
        self._lock = threading.Lock()
        self._open: tuple[int, int] | None = None
        self._written = 0
        self._synced = 0
        self._sync: asyncio.Task[None] | None = None

    def records(self) -> Iterator[Record]:
        """The records in the files, without an incomplete last line."""
        for file in self._files():
            yield from _read(file)

    def start(self) -> None:
        """Start recording; call it after the existing records are applied."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._started = True

    def append(self, record: Record) -> None:
        """Write a record. Any thread may call it."""
        if not self._started:
            return
        line = encoded(record)
        with self._lock:
            try:
                _write_all(self._descriptor(), line)
            except OSError as error:
                self._on_error(error)
            else:
                self._written += 1

    async def synced(self) -> None:
        """Return when everything written so far is on the disk. Call it on the event loop."""
        wanted = self._written
        while self._synced < wanted:
            if self._sync is None:
                self._sync = asyncio.create_task(self._sync_written())
            await asyncio.shield(self._sync)

    async def _sync_written(self) -> None:
        with self._lock:
            last, descriptor = self._written, os.dup(self._descriptor())
        try:
            await asyncio.to_thread(os.fsync, descriptor)
        except OSError as error:
            self._on_error(error)
        else:
            self._synced = last
        finally:
            os.close(descriptor)
            self._sync = None

    def begin_file(self) -> int:
        """Continue in a new file; return its number."""
        with self._lock:
            self._number += 1
            return self._number

    def remove_before(self, number: int) -> None:
        """Remove the files whose records are in a complete snapshot."""
        for file in self._files():
            if _number(file) < number:
                file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.journal"), key=_number)

    def _descriptor(self) -> int:
        """The open file, or a new one if the number has changed."""
        if self._open is None or self._open[0] != self._number:
            self.close()
            self._open = self._number, _created(self._folder / f"{self._number}.journal")
        return self._open[1]

    def close(self) -> None:
        if self._open is not None:
            os.fsync(self._open[1])
            os.close(self._open[1])
            self._open = None


def encoded(record: Record) -> bytes:
    text = json.dumps(record, separators=(",", ":"), check_circular=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decoded(line: bytes) -> Record | None:
    """The record of a line; None if it is not complete."""
    if line[8:9] != b" " or not line.endswith(b"\n"):
        return None
    text = line[9:-1]
    if line[:8] != b"%08x" % zlib.crc32(text):
        return None
    record: Record = json.loads(text)
    return record


def _read(file: Path) -> Iterator[Record]:
    """The records of a file; raise CorruptState if an unreadable line is followed by a readable one."""
    unreadable = 0
    try:
        with file.open("rb") as stream:
            for count, line in enumerate(stream, 1):
                record = _decoded(line)
                if record is None:
                    unreadable = unreadable or count
                elif unreadable:
                    raise CorruptState(file, f"line {unreadable} does not match its checksum")
                else:
                    yield record
    except OSError as error:
        raise CorruptState(file, reason_of(error)) from error


def _number(file: Path) -> int:
    try:
        return int(file.stem)
    except ValueError as error:
        raise CorruptState(file, "its name is not a number") from error


def _created(file: Path) -> int:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    sync_folder(file.parent)
    return descriptor


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
