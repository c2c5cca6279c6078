"""HTTP to where files are kept: at signed addresses, which get no token and whose query nobody is told."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar

import httpx

from shardmill.client.errors import BadFile, TransferFailed
from shardmill.client.http import CONNECT_SECONDS, FIRST_DELAY, LONGEST_DELAY, TRIES
from shardmill.model.files import leaves_work_folder
from shardmill.model.transfers import MAX_UPLOAD_BYTES

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many are."""

T = TypeVar("T")
_TRY_AGAIN = {408, 425, 429}
_TRY_AGAIN_CODES = {"RequestTimeout", "SlowDown"}
_MAYBE_EXPIRED = {400, 401, 403}
_REASON_BYTES = 2_048
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")
_RANGE_START = re.compile(r"bytes (\d+)-")


class Broken(Exception):
    """This try came to nothing; the next may not."""


class Expired(Exception):
    """The address is not let in, as happens to one that is too old."""


class Store:
    def __init__(self, *, timeout: float, trust_env: bool, transport: httpx.BaseTransport | None) -> None:
        self._client = httpx.Client(
            headers={"user-agent": "shardmill", "accept-encoding": "identity"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=True,
            trust_env=trust_env,
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def put(self, url: str, headers: Mapping[str, str], body: Iterable[bytes], size: int) -> None:
        """One try at storing; `body` may be read more than once. Raises Broken, Expired, TransferFailed."""
        with self._answer("PUT", url, {**headers, "content-length": str(size)}, body) as answer:
            if not answer.is_success or answer.request.method != "PUT":
                raise _refusal(answer)

    @contextmanager
    def get(self, url: str, start: int) -> Iterator[Iterator[bytes]]:
        """One try at fetching what comes from byte `start` on. Raises Broken, Expired, TransferFailed."""
        headers = {"range": f"bytes={start}-"} if start else {}
        with self._answer("GET", url, headers) as answer:
            if answer.status_code not in (200, 206):
                raise _refusal(answer)
            pieces = answer.iter_raw()  # as they come: what waits to fill a piece is lost in a break
            yield pieces if _starts_at(answer) else _after(pieces, start)

    @contextmanager
    def _answer(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Iterator[httpx.Response]:
        try:
            with self._client.stream(method, url, headers=headers, content=body) as answer:
                yield answer
        except httpx.TimeoutException:
            raise Broken(f"{shown(url)} does not answer") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects):
            raise TransferFailed(f"{shown(url)} is no address to ask") from None
        except httpx.RequestError as error:
            raise Broken(f"{shown(url)}: {str(error) or type(error).__name__}") from None


def insist(what: str, once: Callable[[], T], moved: Callable[[], int]) -> T:
    """Try until it works, or until it broke too often in a row with nothing `moved` by it."""
    in_vain = farthest = 0
    while True:
        try:
            return once()
        except Broken as error:
            in_vain += 1
            if moved() > farthest:
                farthest, in_vain = moved(), 1
            if in_vain >= TRIES:
                raise TransferFailed(f"{what}: {error} (tried {TRIES} times in vain)") from None
        except TransferFailed as error:
            raise TransferFailed(f"{what}: {error.detail}") from None
        time.sleep(min(FIRST_DELAY * 2**in_vain, LONGEST_DELAY) * random.uniform(0.5, 1.0))


def shown(url: str) -> str:
    """An address without what may be secret in it: its user, its query."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return "what should be its address"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}{parts.path}"


def _starts_at(answer: httpx.Response) -> bool:
    """Whether the answer begins where it was asked to; one that begins at 0 need not heed a range."""
    if answer.status_code == 200:
        return "range" not in answer.request.headers
    found = _RANGE_START.match(answer.headers.get("content-range", ""))
    if not found or answer.request.headers.get("range") != f"bytes={found[1]}-":
        raise Broken(f"{shown(str(answer.request.url))} gave another range than it was asked for")
    return True


def _after(pieces: Iterator[bytes], start: int) -> Iterator[bytes]:
    for piece in pieces:
        if len(piece) > start:
            yield piece[start:]
        start = max(0, start - len(piece))


def _refusal(answer: httpx.Response) -> Exception:
    """What an answer means that is not the one hoped for."""
    text = b""
    for piece in answer.iter_raw():
        text += piece
        if len(text) >= _REASON_BYTES:
            break
    found = _CODE.search(text)
    code = found[1].decode() if found else ""
    url = shown(str(answer.request.url))
    said = f"{url} answered {answer.status_code} {answer.reason_phrase}".rstrip() + (
        f" ({code})" if code else ""
    )
    if answer.status_code >= 500 or answer.status_code in _TRY_AGAIN or code in _TRY_AGAIN_CODES:
        return Broken(said)
    return Expired(said) if answer.status_code in _MAYBE_EXPIRED else TransferFailed(said)


class _Unsigned(logging.Filter):
    """httpx logs every address it asks; a signed one is as good as a password."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                shown(str(each)) if isinstance(each, httpx.URL) and b"Signature=" in each.query else each
                for each in record.args
            )
        return True


logging.getLogger("httpx").addFilter(_Unsigned())


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
