"""What a running task and its worker tell each other while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.model.job import TaskProgress


@dataclass(slots=True)
class Live:
    """Written by one side each, read by the other: no lock is needed for a single value."""

    progress: TaskProgress | None = None
    """How far the task says it is."""
    followed: bool = False
    """Somebody reads its log now."""
