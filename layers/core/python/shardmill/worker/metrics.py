"""The metrics of a worker for Prometheus, served on the loopback interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, Self

log = logging.getLogger("shardmill.worker")

Figures = Mapping[str, float | Mapping[str, float]]
"""The value of each metric, or its values by label."""


class _Metric(NamedTuple):
    about: str
    label: str = ""
    always: tuple[str, ...] = ()


_OUTCOMES = ("success", "failed", "failed-permanent", "rejected")
_CALLS = ("lease", "report", "heartbeat")
_METRICS = {
    "slots": _Metric("maximum number of tasks that run at a time"),
    "suspended": _Metric("1 while the worker is suspended"),
    "tasks_held": _Metric("tasks that wait for a slot, run, or are not reported yet"),
    "tasks_running": _Metric("running tasks"),
    "tasks_leased_total": _Metric("leased tasks"),
    "tasks_ended_total": _Metric("ended tasks, by outcome", "outcome", _OUTCOMES),
    "tasks_handed_back_total": _Metric("tasks handed back before their end"),
    "busy_seconds_total": _Metric("seconds that tasks ran, summed over all slots"),
    "calls_total": _Metric("calls to Shardmill, by operation", "call", _CALLS),
    "call_failures_total": _Metric("failed calls to Shardmill, by operation", "call", _CALLS),
}


def text(figures: Figures) -> str:
    """The metrics in the Prometheus text format."""
    lines: list[str] = []
    for name, metric in _METRICS.items():
        full = f"shardmill_worker_{name}"
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {full} {metric.about}", f"# TYPE {full} {kind}"]
        figure = figures.get(name, {} if metric.label else 0)
        if isinstance(figure, Mapping):
            for value in dict.fromkeys((*metric.always, *figure)):
                lines.append(f'{full}{{{metric.label}="{value}"}} {figure.get(value, 0):.12g}')
        else:
            lines.append(f"{full} {figure:.12g}")
    return "\n".join([*lines, ""])


class Metrics:
    """Serves GET /metrics on 127.0.0.1 while entered. Port 0 selects a free port."""

    def __init__(self, port: int, figures: Callable[[], Figures]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/", "/metrics")
                body = text(figures()).encode() if found else b"see /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Do nothing: scrapes are not logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/metrics"

    def __enter__(self) -> Self:
        self._thread.start()
        log.info("serving metrics", extra={"action": "metrics", "url": self.url})
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
