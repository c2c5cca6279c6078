"""What a worker's machine must have left before it starts another program."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

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
