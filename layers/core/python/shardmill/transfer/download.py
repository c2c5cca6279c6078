"""Downloads that resume after an interruption and are verified by length, ETag and checksum."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shardmill.model.transfers import Fetch
from shardmill.transfer.exchange import Exchange, PermanentError, Reply, RetryableError, error_of

_PRECONDITION_FAILED = 412
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Download:
    """One object, or a byte range of it, on its way into `out`.

    Each call of `attempt` continues where the previous one failed, if the rest is certain to belong to the
    same content. `rewindable`: `out` can be truncated to start over; otherwise wrong content is final.
    """

    def __init__(
        self,
        file: Fetch,
        out: BinaryIO,
        exchange: Exchange,
        *,
        progress: Callable[[int], None],
        rewindable: bool,
    ) -> None:
        self._file, self._out, self._exchange = file, out, exchange
        self._progress = progress
        self._rewindable = rewindable
        self._received = self._farthest = 0
        self._sha = hashlib.sha256()
        self._etag: str | None = None

    @property
    def farthest(self) -> int:
        """The most bytes that any attempt reached."""
        return self._farthest

    def attempt(self, url: str, old: Callable[[], bool] | None) -> None:
        """Download the missing bytes and verify the whole; see `error_of` for `old`."""
        file = self._file
        if self._received and not (file.etag or self._etag or (file.sha256 and file.whole)):
            self._start_over()
        if self._received != file.length or (file.whole and not self._received):
            with self._exchange("GET", url, self._headers()) as reply:
                if reply.status == _PRECONDITION_FAILED:
                    raise self._modified()
                if reply.status not in (200, 206):
                    raise error_of(reply, url, old)
                self._receive(reply)
        self._out.flush()
        self._verify()

    def _headers(self) -> dict[str, str]:
        file, start = self._file, self._file.first + self._received
        headers = {}
        if file.etag:
            headers["If-Match"] = _quoted(file.etag)
        elif self._received and self._etag:
            headers["If-Range"] = self._etag
        if start or file.end is not None:
            headers["Range"] = f"bytes={start}-{'' if file.end is None else file.end - 1}"
        return headers

    def _receive(self, reply: Reply) -> None:
        self._check_etag(reply)
        skip = 0
        if reply.status == 206:
            self._check_range(reply)
        elif self._rewindable:
            self._start_over()
            skip = self._file.first
        else:
            skip = self._file.first + self._received  # the checksum shows whether the skipped bytes differ
        for piece in reply.pieces:
            kept, skip = piece[skip:], max(0, skip - len(piece))
            length = self._file.length
            room = len(kept) if length is None else length - self._received
            if len(kept) > room and (reply.status == 206 or self._file.end is None):
                raise self._discard(f"received more than the expected {length} bytes")
            self._write(kept[:room])
            if self._file.end is not None and self._received == length:
                return

    def _check_etag(self, reply: Reply) -> None:
        """Compare ETags, as a server may ignore If-Match and If-Range."""
        etag = reply.headers.get("ETag") or ""
        strong = etag if etag.startswith('"') else None
        if self._file.etag and strong and strong != _quoted(self._file.etag):
            raise self._modified()
        if reply.status == 206 and self._received and self._etag and strong != self._etag:
            self._etag = None
            raise self._discard("the object changed during the download")
        self._etag = strong

    def _check_range(self, reply: Reply) -> None:
        found = _CONTENT_RANGE.match(reply.headers.get("Content-Range") or "")
        if not found or int(found[1]) != self._file.first + self._received:
            raise RetryableError("the server returned a different byte range than requested")
        if self._file.size is not None and found[3] not in ("*", str(self._file.size)):
            raise RetryableError(f"the object has {found[3]} bytes; expected {self._file.size}")

    def _write(self, piece: bytes) -> None:
        try:
            self._out.write(piece)
        except OSError as error:  # a local failure, not one of the connection
            raise PermanentError(f"cannot write the file: {error.strerror}") from error
        self._sha.update(piece)
        self._received += len(piece)
        self._farthest = max(self._farthest, self._received)
        self._progress(self._received)

    def _verify(self) -> None:
        file, received, found = self._file, self._received, self._sha.hexdigest()
        if file.length is not None and received != file.length:
            raise self._discard(f"received {received} of {file.length} bytes")
        if file.whole and file.sha256 and found != file.sha256:
            raise self._discard(f"checksum mismatch: the SHA-256 is {found}, expected {file.sha256}")

    def _discard(self, reason: str) -> RetryableError | PermanentError:
        if not self._rewindable:
            return PermanentError(reason)
        self._start_over()
        return RetryableError(reason)

    def _start_over(self) -> None:
        self._out.seek(0)
        self._out.truncate()
        self._received, self._sha = 0, hashlib.sha256()

    def _modified(self) -> PermanentError:
        if not self._file.whole:
            return PermanentError(
                "the object changed after it was split; recompute the step to split it again"
            )
        return PermanentError(
            "the object changed after this task was prepared; a new attempt reads the new one"
        )


@contextmanager
def atomic_file(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """A new file to write; it replaces `path` when the block succeeds and is removed otherwise."""
    part = path.parent / f".shardmill-{secrets.token_hex(8)}.part"
    try:
        with open(os.open(part, _NEW_FILE, mode), "wb") as out:
            yield out
        part.replace(path)
    finally:
        with suppress(OSError):  # renamed, or its folder does not exist
            part.unlink()


def _quoted(etag: str) -> str:
    return '"' + etag.strip('"') + '"'
