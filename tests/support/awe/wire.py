"""HTTP as AWE clients speak it: a new connection for each request, and forms without a length."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

BOUNDARY = "-" * 20 + "boundary"
_CHUNK = 8_192
_REDIRECTS = (301, 302, 303, 307, 308)

Files = Mapping[str, tuple[str, bytes]]
"""The name and content of the file in each field of a form."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def envelope(self) -> Any:
        """The whole answer; checks that it is an envelope which agrees with the status."""
        document = json.loads(self.body)
        assert document["status"] == self.status, document
        assert (document["error"] is None) != (document["data"] is None) or self.status == 200, document
        return document

    @property
    def data(self) -> Any:
        assert self.status == 200, (self.status, self.body[:2000])
        assert self.envelope["error"] is None, self.envelope
        return self.envelope["data"]

    @property
    def error(self) -> str:
        """The first error; empty if the request succeeded."""
        return (self.envelope["error"] or [""])[0]


def send(
    method: str,
    url: str,
    *,
    token: str = "",
    files: Files | None = None,
    document: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Send a request on a connection of its own. `token` is the value of the Authorization header."""
    sent = {"Connection": "close", "User-Agent": "Go 1.1 package http", **(headers or {})}
    if token:
        sent["Authorization"] = token
    body: Any = None
    if files is not None:
        sent["Content-Type"] = f"multipart/form-data; boundary={BOUNDARY}"
        sent["Transfer-Encoding"] = "chunked"
        body = _form(files)
    elif document is not None:
        sent["Content-Type"] = "application/json"
        body = json.dumps(document).encode()
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, sent, encode_chunked=files is not None)
        answer = connection.getresponse()
        return Response(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        )
    finally:
        connection.close()


def fetch(url: str, token: str = "") -> bytes:
    """The content behind an address; follows redirects, without the token to another host."""
    response = send("GET", url, token=token)
    if response.status in _REDIRECTS:
        target = response.headers["location"]
        same = urlsplit(target).netloc == urlsplit(url).netloc
        response = send("GET", target, token=token if same else "")
    assert response.status == 200, (url, response.status, response.body[:1000])
    return response.body


def _form(files: Files) -> Iterator[bytes]:
    for name, (filename, content) in files.items():
        yield (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        for first in range(0, len(content), _CHUNK):
            yield content[first : first + _CHUNK]
        yield b"\r\n"
    yield f"--{BOUNDARY}--\r\n".encode()
