"""Where fetched files go on this machine: whole or not at all, and never out of the folder meant for them."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from shardmill.client.errors import BadFile
from shardmill.model.files import leaves_work_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def inside(folder: Path, name: str) -> Path:
    """The path of a file in a folder, whoever chose its name. Raises BadFile if it would lead out of it."""
    if leaves_work_folder(name):
        raise BadFile(f"the file {name!r} is not written: its name leads out of the folder {folder}")
    parts = PurePosixPath(name).parts
    path = folder
    for part in parts[:-1]:
        path /= part
        if path.is_symlink():
            raise BadFile(f"the file {name!r} is not written: {path} is a link, which may lead anywhere")
    return path / parts[-1]


def check_free(path: Path, *, force: bool) -> None:
    """Raises BadFile if something is there that must stay."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    if stat.S_ISDIR(found):
        raise BadFile(f"cannot write {path}: it is a folder")
    if not stat.S_ISREG(found) and not stat.S_ISLNK(found):
        raise BadFile(f"cannot write {path}: it is no plain file")
    if not force:
        raise BadFile(f"{path} exists already: choose another place, or overwrite it with force")


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file to write to, which has its name only when all went well. Raises BadFile."""
    check_free(path, force=force)
    part = path.parent / f".shardmill-{secrets.token_hex(8)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(part, _NEW, 0o666), "wb") as out:
            yield out
        check_free(path, force=force)
        part.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        with suppress(OSError):  # its folder may not be there
            part.unlink()


def _unwritable(path: Path, error: OSError | ValueError) -> BadFile:
    return BadFile(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")
