"""What a worker runs, live on a terminal: a line for each task."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardmill.cli.output import cell, seconds
from shardmill.cli.render.progress import task_bar, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardmill.worker.inflight import Held
    from shardmill.worker.pull_worker import PullWorker

_LEAST_LINES = 3
_BAR = 20


@contextlib.contextmanager
def shown_tasks(worker: PullWorker) -> Iterator[None]:
    """Below what is logged meanwhile; nothing of it stays on the screen."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)

    def look() -> RenderableType:
        return lines(worker.running(), time.monotonic(), max(_LEAST_LINES, console.height // 2))

    with Live(console=console, get_renderable=look, refresh_per_second=4, transient=True):
        yield


def lines(running: Sequence[Held], now: float, room: int) -> RenderableType:
    """As many tasks as there is room for, those that run longest first."""
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
        took = seconds(max(0.0, now - (held.began or now)))
        progress = held.live.progress
        grid.add_row(Text(cell(name)), took, task_bar(progress, _BAR), Text(told(progress)))
    if len(shown) < len(running):
        grid.add_row(Text(f"… and {len(running) - len(shown)} more", style="dim"))
    return grid
