"""Saves the emulator's state while it runs. MiniStack itself saves only when it is stopped in good order.

A forked copy of the process writes the files, as Redis does it: the copy sees one moment, and the server goes
on. Only on Linux: elsewhere a fork of a process with threads is not safe enough, and only the stop saves.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

INTERVAL_SECONDS = 20.0
PATIENCE_SECONDS = 30.0


class Snapshots:
    def __init__(self, app: Any) -> None:
        self._app = app
        self._save: Callable[[dict[str, Any]], None] = app.save_all
        self._over = threading.Event()
        self._lock = threading.Lock()
        app.save_all = self._last_save

    def start(self) -> None:
        if sys.platform == "linux":
            threading.Thread(target=self._run, daemon=True, name="snapshots").start()

    def _run(self) -> None:
        while not self._over.wait(INTERVAL_SECONDS):
            with self._lock:
                if not self._over.is_set():
                    self._write()

    def _write(self) -> None:
        writer = os.fork()
        if writer == 0:
            logging.disable()
            try:
                self._save(self._app._build_persistence_save_dict())
            finally:
                os._exit(0)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while os.waitpid(writer, os.WNOHANG) == (0, 0):
            if self._over.is_set() or time.monotonic() > deadline:
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
                return
            time.sleep(0.02)

    def _last_save(self, services: dict[str, Any]) -> None:
        """The save of an orderly stop: after every snapshot, so that no older state comes to lie over it."""
        self._over.set()
        with self._lock:
            self._save(services)
