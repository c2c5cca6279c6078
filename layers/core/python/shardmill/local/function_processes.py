"""How many processes run the Lambda functions of the laptop cloud.

MiniStack starts a process for every concurrent invocation, as AWS does: about a second of CPU time and 55 MB
each, which two cores do not have for fifty steps that open together. Here an invocation first waits for a
process of its function to become free. Another one is started only if waiting does not help: there are few,
or none became free for a while because all are in long calls, such as a worker that waits for work over HTTP.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from typing import Any

FEW = min(4, max(2, os.cpu_count() or 1))
PATIENCE_SECONDS = 0.1
"""How long an invocation waits before another process is started while there are few."""
STUCK_SECONDS = 1.0
"""After this time without a process that became free, more are started."""
BETWEEN_STARTS_SECONDS = 0.3
_POLL_SECONDS = 0.1


def share_processes(functions: Any, runtime: Any) -> None:
    """Patch MiniStack's Lambda service; `runtime` is its module with the pools of processes."""
    pool = _Pools(runtime)
    functions.acquire_worker = pool.acquire
    functions.release_worker = pool.release


class _Pools:
    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._start = runtime.acquire_worker
        self._release = runtime.release_worker
        self._freed: dict[str, threading.Condition] = defaultdict(lambda: threading.Condition(runtime._lock))
        self._last_free: dict[str, float] = defaultdict(float)
        self._last_start: dict[str, float] = defaultdict(float)

    def acquire(
        self, name: str, config: dict[str, Any], code: bytes, qualifier: str = "$LATEST", **options: Any
    ) -> tuple[Any, str]:
        """An idle process of this function, or a new one, with how it was found."""
        key = self._runtime._worker_key(name, config, qualifier)
        arrived = time.monotonic()
        with self._runtime._lock:
            while True:
                processes = self._runtime._workers.get(key, ())
                for process in processes:
                    if not process.in_use:
                        process.in_use, process.last_used = True, time.time()
                        return process, "reused"
                if self._may_start(key, len(processes), arrived):
                    self._last_start[key] = time.monotonic()
                    break
                self._freed[key].wait(_POLL_SECONDS)
        found: tuple[Any, str] = self._start(name, config, code, qualifier=qualifier, **options)
        return found

    def _may_start(self, key: str, running: int, arrived: float) -> bool:
        now = time.monotonic()
        if not running:
            return True
        if now - self._last_start[key] < BETWEEN_STARTS_SECONDS:
            return False
        if running < FEW:
            return now - arrived >= PATIENCE_SECONDS
        return now - max(arrived, self._last_free[key]) >= STUCK_SECONDS

    def release(self, process: Any) -> None:
        self._release(process)
        if process is None:
            return
        qualifier = process.config.get("Version", "$LATEST")
        key = self._runtime._worker_key(process.func_name, process.config, qualifier)
        with self._runtime._lock:
            self._last_free[key] = time.monotonic()
            self._freed[key].notify()
