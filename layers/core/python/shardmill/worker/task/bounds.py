"""Limits of tasks: their maximum run time, and the load and disk space that they need to start."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from shardmill.worker.outcome import DISCARDED, TIMED_OUT

WATCH_SECONDS = 1.0
_POLL_SECONDS = (0.002, 0.05)
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Tasks are rejected while the load exceeds `max_load`, or less than `min_disk_mb` is free."""

    max_load: float | None = None
    min_disk_mb: int | None = None

    def rejection(self, root: Path) -> str | None:
        """Why no task can start now; `root` is on the disk to check."""
        if self.max_load is not None and (load := os.getloadavg()[0]) > self.max_load:
            return f"load {load:.1f} is above --max-load {self.max_load:g}"
        if self.min_disk_mb is not None:
            free = shutil.disk_usage(root).free // _MEGABYTE
            if free < self.min_disk_mb:
                return f"{free} MB free on the disk of {root} are below --min-disk {self.min_disk_mb}"
        return None


@dataclass(frozen=True, slots=True)
class Bounds:
    """A task runs until it ends, `stop` is set, or `timeout` passes; `watch` is called every second."""

    stop: Event
    timeout: float | None = None
    watch: Callable[[], None] | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float | None:
        return self.started + self.timeout if self.timeout is not None else None

    def wait(self, ended: Callable[[], bool]) -> str | None:
        """Wait for the end of a task; return None, or the reason to end it: `timed-out` or `discarded`."""
        shortest, longest = _POLL_SECONDS
        started = watched = time.monotonic()
        deadline = self.deadline
        while not ended():
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return TIMED_OUT
            if self.watch and now - watched >= WATCH_SECONDS:
                self.watch()
                watched = now
            pause = min(longest, max(shortest, (now - started) / 20))
            if deadline is not None:
                pause = max(0.0, min(pause, deadline - now))
            if self.stop.wait(pause) and not ended():
                return DISCARDED
        return None
