"""Triggers for requests that name none."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from shardmill.model.base import from_ms, to_ms

_lock = threading.Lock()
_last_ms = 0


def new_trigger() -> str:
    """The present time in milliseconds, UTC, and never the same twice in one process."""
    global _last_ms
    with _lock:
        _last_ms = max(to_ms(datetime.now(UTC)), _last_ms + 1)
        moment = from_ms(_last_ms)
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}Z"
