"""The counters of a worker, for Prometheus: as text, and served on loopback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, Self

log = logging.getLogger("shardmill.worker")

Figures = Mapping[str, float | Mapping[str, float]]
"""By the name of a metric: its value, or a value for each value of its label."""


class _Metric(NamedTuple):
    about: str
    label: str = ""
    always: tuple[str, ...] = ()


_OUTCOMES = ("success", "failed", "failed-permanent", "rejected")
_CALLS = ("lease", "report", "heartbeat")
_METRICS = {
    "slots": _Metric("how many tasks it runs at a time"),
    "suspended": _Metric("1 while it may take no tasks"),
    "tasks_held": _Metric("tasks that wait for a slot, run, or are not reported yet"),
    "tasks_running": _Metric("tasks that run"),
    "tasks_leased_total": _Metric("tasks taken"),
    "tasks_ended_total": _Metric("tasks ended, by outcome", "outcome", _OUTCOMES),
    "tasks_handed_back_total": _Metric("tasks given back unfinished"),
    "busy_seconds_total": _Metric("seconds that tasks ran, of all slots together"),
    "calls_total": _Metric("calls to Shardmill, by what they are for", "call", _CALLS),
    "call_failures_total": _Metric("calls to Shardmill that failed", "call", _CALLS),
}


def text(figures: Figures) -> str:
    """In the text format of Prometheus."""
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
    """GET /metrics on this machine only, while it is entered. Port 0 is any that is free."""

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
                """Being looked at is not worth a line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def __enter__(self) -> Self:
        self._thread.start()
        log.info("metrics url=%s", self.url)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
