"""Waiting for a task's end within its bounds."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from shardmill.worker.task.outcome import DISCARDED, TIMED_OUT

WATCH_SECONDS = 1.0
_LOOK_SECONDS = (0.002, 0.05)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A task runs until it ends, `stop` is set, or `timeout` is over; `watch` is called now and then."""

    stop: Event
    timeout: float | None = None
    watch: Callable[[], None] | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float | None:
        return self.began + self.timeout if self.timeout is not None else None

    def await_end(self, over: Callable[[], bool]) -> str | None:
        """None when it came to its own end, else why it must be ended: `timed-out` or `discarded`."""
        shortest, longest = _LOOK_SECONDS
        began = watched = time.monotonic()
        deadline = self.deadline
        while not over():
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return TIMED_OUT
            if self.watch and now - watched >= WATCH_SECONDS:
                self.watch()
                watched = now
            pause = min(longest, max(shortest, (now - began) / 20))
            if deadline is not None:
                pause = max(0.0, min(pause, deadline - now))
            if self.stop.wait(pause) and not over():
                return DISCARDED
        return None


_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Tasks are rejected while the load is above `max_load`, or less than `min_disk_mb` is free."""

    max_load: float | None = None
    min_disk_mb: int | None = None

    def refusal(self, root: Path) -> str | None:
        """Why a program cannot be started now, in the folder where tasks have theirs."""
        if self.max_load is not None and (load := os.getloadavg()[0]) > self.max_load:
            return f"load {load:.1f} is above --max-load {self.max_load:g}"
        if self.min_disk_mb is not None:
            free = shutil.disk_usage(root).free // _MEGABYTE
            if free < self.min_disk_mb:
                return f"{free} MB free on the disk of {root} are below --min-disk {self.min_disk_mb}"
        return None
