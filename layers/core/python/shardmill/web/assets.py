"""The files of the dashboard, read and compressed on first use and then served from memory.

The address of a file contains a digest of all files, so that browsers can cache it forever. The page itself
is revalidated, and refers to the files of its own version.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

STATIC = Path(__file__).with_name("static")
PAGE = "index.html"
_PLACEHOLDER = "{{assets}}"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_SAFETY = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
FOREVER = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent: the answer's status, headers and body."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str]


def serve(path: str, headers: Mapping[str, str], origin: str = "") -> Asset | None:
    """Answer a GET of the page or one of its files; None if there is no such file.

    `headers`: the request headers, with names in lower case. `origin`: another origin that the page may send
    requests to.
    """
    name, caching = _file_at(path)
    if name is None:
        return None
    etag = f'"{digest()}"'
    policy = _POLICY.replace("connect-src 'self'", f"connect-src 'self' {origin}") if origin else _POLICY
    sent = {
        **_SAFETY,
        "content-security-policy": policy,
        "cache-control": caching,
        "etag": etag,
        "vary": "accept-encoding",
    }
    content_type = _TYPES[PurePosixPath(name).suffix]
    if etag in headers.get("if-none-match", ""):
        return Asset(304, content_type, b"", sent)
    if "gzip" in headers.get("accept-encoding", ""):
        return Asset(200, content_type, _compressed(name), {**sent, "content-encoding": "gzip"})
    return Asset(200, content_type, _content(name), sent)


def _file_at(path: str) -> tuple[str | None, str]:
    """The name of the file at a path, and how long browsers may keep it."""
    if path == "/":
        return PAGE, REVALIDATE
    name = path.removeprefix(f"/assets/{digest()}/")
    return (name if name in _files() and name != PAGE else None), FOREVER


@cache
def _files() -> dict[str, bytes]:
    return {
        file.relative_to(STATIC).as_posix(): file.read_bytes()
        for file in sorted(STATIC.rglob("*"))
        if file.suffix in _TYPES
    }


@cache
def digest() -> str:
    """A digest of the names and contents of all files."""
    found = hashlib.sha256()
    for name, content in _files().items():
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


@cache
def _content(name: str) -> bytes:
    content = _files()[name]
    return content.replace(_PLACEHOLDER.encode(), f"assets/{digest()}".encode()) if name == PAGE else content


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_content(name), 9, mtime=0)


def compressed_size() -> int:
    """The size of all files together, as browsers get them."""
    return sum(len(_compressed(name)) for name in _files())
