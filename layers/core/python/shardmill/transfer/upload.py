"""Uploads of a file, or of a part of it, with one PUT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from shardmill.transfer.exchange import Exchange, Headers, PermanentError, error_of

PIECE_BYTES = 2**20


class FileTruncated(Exception):
    """The file became shorter while it was read."""


def read_range(file: BinaryIO, first: int, end: int) -> Iterator[bytes]:
    """The bytes [first, end) of a file. Raises FileTruncated."""
    file.seek(first)
    while first < end:
        piece = file.read(min(PIECE_BYTES, end - first))
        if not piece:
            raise FileTruncated
        first += len(piece)
        yield piece


def put(
    exchange: Exchange,
    url: str,
    headers: Mapping[str, str],
    body: Iterable[bytes],
    size: int,
    old: Callable[[], bool] | None,
) -> Headers:
    """Store `size` bytes at a presigned URL and return the response headers; see `error_of` for `old`.

    Raises RetryableError and PermanentError.
    """
    sent = {name: value for name, value in headers.items() if name.lower() != "content-length"}
    with exchange("PUT", url, {**sent, "Content-Length": str(size)}, body) as reply:
        if not 200 <= reply.status < 300:
            error = error_of(reply, url, old)
            # For a PUT, 404 means that the bucket or the upload is gone.
            raise PermanentError(str(error)) if isinstance(error, PermanentError) else error
        return reply.headers
