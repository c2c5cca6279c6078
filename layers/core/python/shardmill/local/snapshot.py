"""Save the emulator's state while it runs and when it stops. MiniStack itself saves only when it stops.

A complete snapshot makes the older files of the journal unnecessary.

As in Redis, a forked copy of the process writes the files: it has a consistent state while the server runs.
On Linux only: elsewhere forking a process with threads is not safe, and the state is saved at the stop and
after a deployment; until then the journal grows.

The server's event loop makes all calls, so that no request is half processed in what is written.
"""

from __future__ import annotations

import asyncio
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
POLL_SECONDS = 0.02
FORKS = sys.platform == "linux"


class Store(Protocol):
    def write(self) -> None: ...

    def drop_unfinished(self) -> None: ...


class Changes(Protocol):
    """The journal, which begins a new file with each snapshot."""

    def begin_file(self) -> int: ...

    def remove_before(self, number: int) -> None: ...


class Snapshots:
    def __init__(self, store: Store, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._writer: int | None = None
        self._since = 0
        self._complete = False

    def start(self, loop: AbstractEventLoop) -> None:
        if FORKS:
            loop.call_later(INTERVAL_SECONDS, self._take_snapshot, loop)

    def _take_snapshot(self, loop: AbstractEventLoop) -> None:
        self.start(loop)
        if not self._writing():
            self._fork()

    async def save(self) -> None:
        """Return when all changes so far are in a complete snapshot."""
        while self._writing():
            await asyncio.sleep(POLL_SECONDS)
        if FORKS:
            self._fork()
            while self._writing():
                await asyncio.sleep(POLL_SECONDS)
            if self._complete:
                return
        self._write_here()

    def finish(self, when_copied: Callable[[], None]) -> None:
        """Save at the stop, after killing a snapshot in progress, which would otherwise overwrite it.

        The forked writer has its own process group, so that it survives when ours is killed."""
        if self._writing() and self._writer is not None:
            os.kill(self._writer, signal.SIGKILL)
            os.waitpid(self._writer, 0)
            self._store.drop_unfinished()
        if FORKS:
            writer = self._fork()
            os.setpgid(writer, writer)
            when_copied()
            self._ended(os.waitpid(writer, 0)[1])
            if self._complete:
                return
        self._write_here()

    def _writing(self) -> bool:
        """Whether a forked writer is at work."""
        if self._writer is None:
            return False
        ended, status = os.waitpid(self._writer, os.WNOHANG)
        if ended:
            self._ended(status)
        return not ended

    def _ended(self, status: int) -> None:
        self._writer, self._complete = None, status == 0
        if self._complete:
            self._changes.remove_before(self._since)

    def _write_here(self) -> None:
        since = self._changes.begin_file()
        self._store.write()
        self._changes.remove_before(since)

    def _fork(self) -> int:
        self._since = self._changes.begin_file()
        self._writer = os.fork() or self._write_and_leave()
        return self._writer

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
