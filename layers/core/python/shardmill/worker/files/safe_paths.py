"""Files in a task's work folder; names and links that lead out of it are rejected."""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO

from shardmill.model.files import MAX_NAME_BYTES, File, leaves_work_folder, name_fault
from shardmill.model.plain_json import plain_faults
from shardmill.model.transfers import (
    MAX_STORED,
    MAX_STORED_BYTES,
    Stored,
    StoreRequest,
    as_stored,
    part_ranges,
)
from shardmill.model.worker import output_size
from shardmill.transfer.upload import FileTruncated, read_range

MAX_ATTRIBUTES_BYTES = 65_536
FileState = tuple[int, int, int]
NO_FILES: Mapping[str, FileState] = MappingProxyType({})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class TransferError(Exception):
    """A file cannot be downloaded or uploaded; the message tells the user which one and why."""


class UnsafePath(TransferError):
    """A name or a link leads out of the work folder."""


class MissingFile(TransferError):
    """The file does not exist."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file to upload: its path in the work folder, and the name that it is stored under."""

    path: str
    name: str
    attributes: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An output with its checksums: SHA-256 of the whole, MD5 of each part."""

    output: Output
    size: int
    sha256: str
    md5s: tuple[bytes, ...]

    @property
    def request(self) -> StoreRequest:
        md5s = [base64.b64encode(md5).decode() for md5 in self.md5s]
        return StoreRequest(name=self.output.name, size=self.size, md5s=md5s)

    @property
    def stored(self) -> Stored:
        attributes = self.output.attributes
        return Stored(name=self.output.name, size=self.size, sha256=self.sha256, attributes=attributes)


def target(folder: Path, name: str, set_owner: Callable[[Path], None] | None = None) -> Path:
    """The path for a file of this name; creates its folders, calls `set_owner` with each, follows no link."""
    path = folder
    *parents, last = _parts(name)
    for part in parents:
        path /= part
        if path.is_symlink():
            raise UnsafePath(f"{name!r} is not allowed: {_within(path, folder)!r} is a link")
        if not path.exists():
            path.mkdir(mode=0o700)
            if set_owner:
                set_owner(path)
        elif not path.is_dir():
            raise TransferError(f"cannot create {name!r}: {_within(path, folder)!r} is not a folder")
    path /= last
    if path.is_symlink():
        raise UnsafePath(f"{name!r} is not allowed: it is a link")
    if path.is_dir():
        raise TransferError(f"cannot create {name!r}: a folder has this name")
    return path


def open_inside(folder: Path, name: str) -> BinaryIO:
    """Open a regular file for reading; links are followed as long as they stay in the folder.

    A process that outlives the task may rename files at any time. The resolved path is therefore opened
    folder by folder, without following another link.
    """
    root = folder.resolve()
    real = _resolved(root, name)
    descriptor = os.open(root, _READ | os.O_DIRECTORY)
    *parents, last = real.relative_to(root).parts
    try:
        for part in parents:
            descriptor = _descend(descriptor, part, os.O_DIRECTORY)
        descriptor = _descend(descriptor, last, os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TransferError(f"{name!r} is not a regular file")
    except OSError as error:
        os.close(descriptor)
        raise TransferError(f"cannot read {name!r}: {error.strerror}") from error
    except TransferError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def file_state(path: Path) -> FileState:
    """A value that changes when a file is written to or replaced."""
    found = path.lstat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def select_outputs(
    outputs: Iterable[File], folder: Path, inputs: Mapping[str, FileState] = NO_FILES
) -> list[Output]:
    """The files of a step's outputs, each checked. Raises TransferError.

    A pattern does not match `inputs` that are unchanged since they were downloaded.
    """
    found: dict[str, Output] = {}
    for file in outputs:
        for output in _select(file, folder, inputs):
            other = found.setdefault(output.name, output)
            if other.path != output.path:
                raise TransferError(
                    f"outputs {other.path!r} and {output.path!r} would both be stored as {output.name!r}"
                )
    _check_limits(found.values())
    return list(found.values())


def _check_limits(outputs: Collection[Output]) -> None:
    """Check before the upload that all outputs fit into one report."""
    if len(outputs) > MAX_STORED:
        raise TransferError(
            f"the task has {len(outputs)} output files; the maximum is {MAX_STORED}: pack some into one file"
        )
    stored = [Measured(output, 0, "0" * 64, ()).stored for output in outputs]
    if (size := output_size(as_stored(stored))) > MAX_STORED_BYTES:
        raise TransferError(
            f"the names and attributes of {len(stored)} outputs have {size} bytes; the maximum is "
            f"{MAX_STORED_BYTES}: pack some into one file, or shorten them"
        )


def _select(file: File, folder: Path, inputs: Mapping[str, FileState]) -> list[Output]:
    paths = [
        path
        for path in matches(folder, file.name)
        if path == file.name or inputs.get(path) != file_state(folder / path)
    ]
    if file.upload_name and len(paths) > 1:
        raise TransferError(
            f"output {file.name!r} matches {len(paths)} files, which cannot all be stored as "
            f"{file.upload_name!r}"
        )
    try:
        paths = [path for path in paths if _check(folder, path, file)]
    except TransferError as error:
        raise type(error)(f"output {error}") from error
    if not paths:
        if file.optional:
            return []
        raise MissingFile(f"output {file.name!r} is missing")
    attributes = _attributes(folder, file)
    return [Output(path, _stored_name(path, file), attributes) for path in paths]


def _stored_name(path: str, file: File) -> str:
    name = PurePosixPath(file.upload_name or path).as_posix()
    if fault := name_fault(name):
        raise UnsafePath(f"output {path!a} cannot be stored: its name {fault}")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise TransferError(f"output {path!a} cannot be stored: its name exceeds {MAX_NAME_BYTES} bytes")
    return name


def _check(folder: Path, path: str, file: File) -> bool:
    """Whether an output exists. Raises TransferError if it cannot be stored."""
    try:
        opened = open_inside(folder, path)
    except MissingFile:  # a dangling link
        if file.optional:
            return False
        raise
    with opened:
        if file.nonzero and not os.fstat(opened.fileno()).st_size:
            raise TransferError(f"{path!r} is empty, but the step requires content (nonzero)")
    return True


def _attributes(folder: Path, file: File) -> dict[str, Any] | None:
    if not file.attrfile:
        return None
    what = f"the attrfile of output {file.name!r}: {file.attrfile!r}"
    try:
        with open_inside(folder, file.attrfile) as opened:
            data = opened.read(MAX_ATTRIBUTES_BYTES + 1)
    except TransferError as error:
        raise type(error)(f"the attrfile of output {file.name!r}: {error}") from error
    if len(data) > MAX_ATTRIBUTES_BYTES:
        raise TransferError(f"{what} has more than {MAX_ATTRIBUTES_BYTES} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TransferError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TransferError(f"{what} must be a JSON object")
    for fault in plain_faults(value):
        raise TransferError(f"{what} cannot be stored: {fault.pointer or 'it'} {fault.message}")
    return value


def measure(folder: Path, output: Output, progress: Callable[[int, int], None]) -> Measured:
    """Compute all checksums of a file in one pass; `progress` is called with the bytes read and the size."""
    whole, md5s = hashlib.sha256(), []
    with open_inside(folder, output.path) as file:
        size = os.fstat(file.fileno()).st_size
        for first, end in part_ranges(size):
            md5 = hashlib.md5(usedforsecurity=False)
            for piece in pieces(file, first, end, output):
                whole.update(piece)
                md5.update(piece)
                progress(file.tell(), size)
            md5s.append(md5.digest())
    return Measured(output, size, whole.hexdigest(), tuple(md5s))


def pieces(file: BinaryIO, first: int, end: int, output: Output) -> Iterator[bytes]:
    """The bytes [first, end) of an output."""
    try:
        yield from read_range(file, first, end)
    except FileTruncated:
        raise TransferError(f"output {output.path!r} became shorter during the upload") from None


def matches(folder: Path, pattern: str) -> list[str]:
    """The sorted names of the files that match a name or a pattern such as `part-*.csv`."""
    _parts(pattern)
    if os.path.lexists(folder / pattern):
        return [PurePosixPath(pattern).as_posix()]
    if not glob.has_magic(pattern):
        return []
    found = glob.glob(pattern, root_dir=folder)
    return sorted(name for name in found if not (folder / name).is_dir())


def _parts(name: str) -> tuple[str, ...]:
    if leaves_work_folder(name):
        raise UnsafePath(f"{name!r} is not allowed: it must be a path inside the work folder, without '..'")
    return PurePosixPath(name).parts


def _resolved(root: Path, name: str) -> Path:
    path = root.joinpath(*_parts(name))
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UnsafePath(f"{name!r} is not allowed: its links form a loop") from error
    if real == root or not real.is_relative_to(root):
        raise UnsafePath(f"{_first_link(root, path)!r} is not allowed: it is a link out of the work folder")
    if not real.exists():
        raise MissingFile(f"{name!r} is missing")
    return real


def _first_link(root: Path, path: Path) -> str:
    """The link inside the folder; the message must not disclose where it leads."""
    between = [each for each in (*reversed(path.parents), path) if each.is_relative_to(root) and each != root]
    return _within(next((each for each in between if each.is_symlink()), path), root)


def _within(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _descend(descriptor: int, part: str, kind: int) -> int:
    """Open an entry of an open folder, and close the folder."""
    found = os.open(part, _READ | kind, dir_fd=descriptor)
    os.close(descriptor)
    return found
