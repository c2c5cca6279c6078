"""One HTTP exchange with an object store: the interface of the caller, and the errors of responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

_RETRYABLE_STATUSES = {408, 425, 429}
_RETRYABLE_CODES = {"RequestTimeout", "BadDigest", "SlowDown"}
_EXPIRED_STATUSES = {400, 401, 403}
_MISSING_STATUSES = {404, 410}
_BODY_BYTES = 2048
_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")


class RetryableError(Exception):
    """This attempt failed; the next one may succeed."""


class ExpiredUrl(RetryableError):
    """The presigned URL has expired; a new one may work."""


class PermanentError(Exception):
    """The transfer failed, and a retry would fail in the same way."""


class ObjectNotFound(PermanentError):
    """There is no object at the URL."""


class Headers(Protocol):
    """Response headers, whose names are not case-sensitive."""

    def get(self, name: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """The response after redirects; `pieces` yields its body as it arrives."""

    status: int
    reason: str
    headers: Headers
    pieces: Iterator[bytes]


class Exchange(Protocol):
    """Sends one request. Raises RetryableError and PermanentError, also while the body is read."""

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> AbstractContextManager[Reply]: ...


def redact(url: str) -> str:
    """A URL without its credentials and query, which may be secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the URL"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def error_of(reply: Reply, url: str, old: Callable[[], bool] | None) -> RetryableError | PermanentError:
    """The exception for an unsuccessful response.

    `old` is None for a URL that cannot be replaced by a new one. Otherwise it returns whether the URL may
    have expired, even if the response does not say so.
    """
    text = b""
    for piece in reply.pieces:
        text += piece[: _BODY_BYTES - len(text)]
        if len(text) >= _BODY_BYTES:
            break
    found = _CODE.search(text)
    code = found[1].decode() if found else ""
    detail = f"{redact(url)} returned {reply.status} {reply.reason}".rstrip() + (f" ({code})" if code else "")
    if reply.status >= 500 or reply.status in _RETRYABLE_STATUSES or code in _RETRYABLE_CODES:
        return RetryableError(detail)
    if old and reply.status in _EXPIRED_STATUSES and (old() or b"expired" in text or code == "ExpiredToken"):
        return ExpiredUrl(detail)
    return ObjectNotFound(detail) if reply.status in _MISSING_STATUSES else PermanentError(detail)
