"""The tasks of a worker: a live view with one line per task, or JSON lines with their events."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardmill.cli import terminal
from shardmill.cli.output import cell, json_line, seconds
from shardmill.cli.render.progress import progress_text, task_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardmill.model.worker import Lease, Result
    from shardmill.worker.inflight import InflightTask
    from shardmill.worker.pull_worker import PullWorker

_MIN_LINES = 3
_BAR_WIDTH = 20


@contextlib.contextmanager
def live_tasks(worker: PullWorker) -> Iterator[None]:
    """Show the running tasks below the log lines; the view disappears at the end."""
    from rich.live import Live

    console = terminal.console(sys.stderr)

    def draw() -> RenderableType:
        return task_lines(worker.running(), time.monotonic(), max(_MIN_LINES, console.height // 2))

    with Live(console=console, get_renderable=draw, refresh_per_second=4, transient=True):
        yield


def task_lines(running: Sequence[InflightTask], now: float, room: int) -> RenderableType:
    """Draw as many tasks as fit, longest-running first."""
    from rich.table import Table
    from rich.text import Text

    if not running:
        return Text("waiting for tasks", style="dim")
    shown = running if len(running) <= room else running[: room - 1]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for held in shown:
        lease = held.lease
        name = f"{lease.job_name}/{lease.trigger} {lease.step_name} {lease.sharding.index}"
        elapsed = seconds(max(0.0, now - (held.started or now)))
        progress = held.live.progress
        grid.add_row(Text(cell(name)), elapsed, task_bar(progress, _BAR_WIDTH), Text(progress_text(progress)))
    if len(shown) < len(running):
        grid.add_row(Text(f"… and {len(running) - len(shown)} more", style="dim"))
    return grid


class JsonEvents:
    """Prints a JSON line for each task event; stops the worker when standard output is closed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()

    def __call__(self, event: str, lease: Lease, result: Result | None) -> None:
        line = {
            "event": event,
            "taskId": lease.task_id,
            "attempt": lease.attempt,
            "jobName": lease.job_name,
            "trigger": lease.trigger,
            "stepName": lease.step_name,
            "index": lease.sharding.index,
        }
        if result:
            line |= {"outcome": result.outcome, "exitCode": result.exit_code, "reason": result.reason}
        with self._lock:
            try:
                json_line(line)
            except BrokenPipeError:
                self._stop.set()
