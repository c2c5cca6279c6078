"""The files in a task's work folder: names that leave it and links out of it are refused."""

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

PIECE_BYTES = 2**20
MAX_ATTRIBUTES_BYTES = 65_536
Traits = tuple[int, int, int]
NOTHING_BROUGHT: Mapping[str, Traits] = MappingProxyType({})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class TransferError(Exception):
    """A file did not get where it belongs; the text tells the user which, and why."""


class Unsafe(TransferError):
    """A name or a link leads out of the work folder."""


class Missing(TransferError):
    """There is no such file."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file that is to be stored: where it lies in the work folder, and the name it is stored under."""

    path: str
    name: str
    attributes: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An output and the checksums of it: SHA-256 of all, MD5 of each part."""

    output: Output
    size: int
    sha256: str
    md5s: tuple[bytes, ...]

    @property
    def request(self) -> StoreRequest:
        words = [base64.b64encode(md5).decode() for md5 in self.md5s]
        return StoreRequest(name=self.output.name, size=self.size, md5s=words)

    @property
    def stored(self) -> Stored:
        attributes = self.output.attributes
        return Stored(name=self.output.name, size=self.size, sha256=self.sha256, attributes=attributes)


def target(folder: Path, name: str, give: Callable[[Path], None] | None = None) -> Path:
    """Where a file of this name goes. Its folders are made, and told to `give`; none of them is a link."""
    path = folder
    *parents, last = _parts(name)
    for part in parents:
        path /= part
        if path.is_symlink():
            raise Unsafe(f"{name!r} is refused: {_within(path, folder)!r} is a link")
        if not path.exists():
            path.mkdir(mode=0o700)
            if give:
                give(path)
        elif not path.is_dir():
            raise TransferError(f"{name!r} cannot be placed: {_within(path, folder)!r} is not a folder")
    path /= last
    if path.is_symlink():
        raise Unsafe(f"{name!r} is refused: it is a link")
    if path.is_dir():
        raise TransferError(f"{name!r} cannot be placed: a folder has this name")
    return path


def open_inside(folder: Path, name: str) -> BinaryIO:
    """A plain file for reading; links are followed as long as they stay in the folder.

    A process that the task left behind may change names while we look: the path that was found good is opened
    without following another link.
    """
    root = folder.resolve()
    real = _resolved(root, name)
    descriptor = os.open(root, _READ | os.O_DIRECTORY)
    *parents, last = real.relative_to(root).parts
    try:
        for part in parents:
            descriptor = _deeper(descriptor, part, os.O_DIRECTORY)
        descriptor = _deeper(descriptor, last, os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TransferError(f"{name!r} is not a plain file")
    except OSError as error:
        os.close(descriptor)
        raise TransferError(f"{name!r} cannot be read: {error.strerror}") from error
    except TransferError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def traits(path: Path) -> Traits:
    """What changes when a file is written to, or replaced."""
    found = path.lstat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def chosen(
    outputs: Iterable[File], folder: Path, brought: Mapping[str, Traits] = NOTHING_BROUGHT
) -> list[Output]:
    """The files that outputs stand for, each found fit to be stored. Raises TransferError.

    A pattern does not stand for what was `brought` to the task, unless it was changed since.
    """
    found: dict[str, Output] = {}
    for file in outputs:
        for output in _chosen(file, folder, brought):
            other = found.setdefault(output.name, output)
            if other.path != output.path:
                raise TransferError(
                    f"outputs {other.path!r} and {output.path!r} are both to be stored as {output.name!r}"
                )
    _keepable(found.values())
    return list(found.values())


def _keepable(outputs: Collection[Output]) -> None:
    """All of them must be told in one report: better to know it before they are sent."""
    if len(outputs) > MAX_STORED:
        raise TransferError(
            f"its outputs are {len(outputs)} files; a task stores {MAX_STORED} at most: pack some into one"
        )
    told = [Measured(output, 0, "0" * 64, ()).stored for output in outputs]
    if (size := output_size(as_stored(told))) > MAX_STORED_BYTES:
        raise TransferError(
            f"the names and attributes of its {len(told)} outputs have {size} bytes; {MAX_STORED_BYTES} fit: "
            "pack some into one, or shorten them"
        )


def _chosen(file: File, folder: Path, brought: Mapping[str, Traits]) -> list[Output]:
    paths = [
        path
        for path in matches(folder, file.name)
        if path == file.name or brought.get(path) != traits(folder / path)
    ]
    if file.upload_name and len(paths) > 1:
        raise TransferError(
            f"output {file.name!r} is {len(paths)} files, which cannot all be stored as {file.upload_name!r}"
        )
    try:
        paths = [path for path in paths if _fit(folder, path, file)]
    except TransferError as error:
        raise type(error)(f"output {error}") from error
    if not paths:
        if file.optional:
            return []
        raise Missing(f"output {file.name!r} is missing")
    attributes = _attributes(folder, file)
    return [Output(path, _stored_name(path, file), attributes) for path in paths]


def _stored_name(path: str, file: File) -> str:
    name = PurePosixPath(file.upload_name or path).as_posix()
    if wrong := name_fault(name):
        raise Unsafe(f"output {path!a} cannot be stored: its name {wrong}")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise TransferError(f"output {path!a} cannot be stored: of its name {MAX_NAME_BYTES} bytes fit")
    return name


def _fit(folder: Path, path: str, file: File) -> bool:
    """Whether it is there; raises TransferError if it cannot be stored."""
    try:
        opened = open_inside(folder, path)
    except Missing:  # a link to nothing
        if file.optional:
            return False
        raise
    with opened:
        if file.nonzero and not os.fstat(opened.fileno()).st_size:
            raise TransferError(f"{path!r} is empty, and it must not be (nonzero)")
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


def measure(folder: Path, output: Output, look: Callable[[int, int], None]) -> Measured:
    """All checksums of a file in one reading; `look` is told how much of how much was read."""
    whole, md5s = hashlib.sha256(), []
    with open_inside(folder, output.path) as file:
        size = os.fstat(file.fileno()).st_size
        for first, end in part_ranges(size):
            md5 = hashlib.md5(usedforsecurity=False)
            for piece in pieces(file, first, end, output):
                whole.update(piece)
                md5.update(piece)
                look(file.tell(), size)
            md5s.append(md5.digest())
    return Measured(output, size, whole.hexdigest(), tuple(md5s))


def pieces(file: BinaryIO, first: int, end: int, output: Output) -> Iterator[bytes]:
    """The bytes [first, end) of an output."""
    file.seek(first)
    while first < end:
        piece = file.read(min(PIECE_BYTES, end - first))
        if not piece:
            raise TransferError(f"output {output.path!r} became shorter while it was stored")
        first += len(piece)
        yield piece


def matches(folder: Path, pattern: str) -> list[str]:
    """The names of the files that a name or a pattern such as `part-*.csv` stands for, in order."""
    _parts(pattern)
    if os.path.lexists(folder / pattern):
        return [PurePosixPath(pattern).as_posix()]
    if not glob.has_magic(pattern):
        return []
    found = glob.glob(pattern, root_dir=folder)
    return sorted(name for name in found if not (folder / name).is_dir())


def _parts(name: str) -> tuple[str, ...]:
    if leaves_work_folder(name):
        raise Unsafe(f"{name!r} is refused: it must be a path inside the work folder, without '..'")
    return PurePosixPath(name).parts


def _resolved(root: Path, name: str) -> Path:
    path = root.joinpath(*_parts(name))
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise Unsafe(f"{name!r} is refused: its links lead nowhere") from error
    if real == root or not real.is_relative_to(root):
        raise Unsafe(f"{_first_link(root, path)!r} is refused: it is a link out of the work folder")
    if not real.exists():
        raise Missing(f"{name!r} is missing")
    return real


def _first_link(root: Path, path: Path) -> str:
    """Only what is in the folder is told, not what lies behind the link."""
    between = [each for each in (*reversed(path.parents), path) if each.is_relative_to(root) and each != root]
    return _within(next((each for each in between if each.is_symlink()), path), root)


def _within(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _deeper(descriptor: int, part: str, kind: int) -> int:
    """Opens what is in an open folder, which is then closed."""
    found = os.open(part, _READ | kind, dir_fd=descriptor)
    os.close(descriptor)
    return found
