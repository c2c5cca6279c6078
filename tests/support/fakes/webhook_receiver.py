"""A webhook on loopback that accepts, rejects or ignores requests as the test says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.body)
        return event


@dataclass
class Receiver:
    """`answers`: the statuses of the next answers; afterwards, 204."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    location: str = ""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [each.event for each in self.got]


@contextmanager
def receiver() -> Iterator[Receiver]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    server.daemon_threads = True
    started = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
    server.receiver = started  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield started
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Requests(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: pytest's output is for the tests."""

    def do_POST(self) -> None:
        known: Receiver = self.server.receiver  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known.got.append(Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(known.answers.pop(0) if known.answers else 204)
        if known.location:
            self.send_header("Location", known.location)
        self.send_header("Content-Length", "0")
        self.end_headers()
