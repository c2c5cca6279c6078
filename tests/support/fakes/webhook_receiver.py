"""A webhook receiver on loopback that returns the statuses that a test sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class WebhookRequest:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.body)
        return event


@dataclass
class Receiver:
    """Records requests and returns the statuses in `statuses`; when there are none left, 204."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    requests: list[WebhookRequest] = field(default_factory=list)
    location: str = ""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [each.event for each in self.requests]


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
        """Log nothing, to keep the output of tests clean."""

    def do_POST(self) -> None:
        receiver_: Receiver = self.server.receiver  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        receiver_.requests.append(
            WebhookRequest(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        )
        self.send_response(receiver_.statuses.pop(0) if receiver_.statuses else 204)
        if receiver_.location:
            self.send_header("Location", receiver_.location)
        self.send_header("Content-Length", "0")
        self.end_headers()
