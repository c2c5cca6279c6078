"""Saves the emulator's state while it runs, and when it stops. MiniStack itself saves only then.

A forked copy of the process writes the files, as Redis does it: the copy sees one moment, and the server goes
on. Only on Linux: elsewhere a fork of a process with threads is not safe enough, and only the stop saves.

All of it is called by the server's event loop: so no request is half done in what is written.
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
            loop.call_later(INTERVAL_SECONDS, self._again, loop)

    def _again(self, loop: AbstractEventLoop) -> None:
        self.start(loop)
        if self._writer is not None and os.waitpid(self._writer, os.WNOHANG) != (0, 0):
            self._writer = None
        if self._writer is None:
            self._writer = self._fork()

    def finish(self, when_copied: Callable[[], None]) -> None:
        """The save of an orderly stop; a snapshot in the making must not come to lie over it.

        The copy that writes is in no danger when our process group is ended, `when_copied` or by others."""
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
        """In the copy nothing else runs: what is to be written need not be copied once more."""
        code = 1
        try:
            signal.alarm(WRITE_SECONDS)
            logging.disable()
            gc.disable()
            copy.deepcopy = _itself  # type: ignore[assignment]
            self._store.write()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)


def _itself(value: Any, _memo: Any = None) -> Any:
    return value
