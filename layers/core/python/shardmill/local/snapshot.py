"""Save the emulator's state while it runs and when it stops. MiniStack itself saves only when it stops.

As in Redis, a forked copy of the process writes the files: it has a consistent state while the server runs.
On Linux only: elsewhere forking a process with threads is not safe, and the state is saved only at the stop.

The server's event loop makes all calls, so that no request is half processed in what is written.
"""

from __future__ import annotations

import copy
import gc
import logging
import os
import signal
import sys
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

INTERVAL_SECONDS = 20.0
WRITE_SECONDS = 60
FORKS = sys.platform == "linux"


class Store(Protocol):
    def write(self) -> None: ...

    def drop_unfinished(self) -> None: ...


class Snapshots:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer: int | None = None

    def start(self, loop: AbstractEventLoop) -> None:
        if FORKS:
            loop.call_later(INTERVAL_SECONDS, self._take_snapshot, loop)

    def _take_snapshot(self, loop: AbstractEventLoop) -> None:
        self.start(loop)
        if self._writer is not None and os.waitpid(self._writer, os.WNOHANG) != (0, 0):
            self._writer = None
        if self._writer is None:
            self._writer = self._fork()

    def finish(self, when_copied: Callable[[], None]) -> None:
        """Save at the stop, after killing a snapshot in progress, which would otherwise overwrite it.

        The forked writer has its own process group, so that it survives when ours is killed."""
        if self._writer is not None:
            os.kill(self._writer, signal.SIGKILL)
            os.waitpid(self._writer, 0)
            self._store.drop_unfinished()
        if FORKS:
            writer = self._fork()
            os.setpgid(writer, writer)
            when_copied()
            if os.waitpid(writer, 0)[1] == 0:
                return
        self._store.write()

    def _fork(self) -> int:
        return os.fork() or self._write_and_leave()

    def _write_and_leave(self) -> NoReturn:
        """Write the state in the forked copy, where nothing else runs and deep copies are not needed."""
        code = 1
        try:
            signal.alarm(WRITE_SECONDS)
            logging.disable()
            gc.disable()
            copy.deepcopy = _no_copy  # type: ignore[assignment]
            self._store.write()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)


def _no_copy(value: Any, _memo: Any = None) -> Any:
    return value
