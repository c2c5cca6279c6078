"""The processes that run the Lambda functions of the laptop cloud: how many there are, and their layer.

MiniStack starts a process for every concurrent invocation, as AWS does: about a second of CPU time and 55 MB
each, which two cores do not have for fifty steps that open together. Here an invocation first waits for a
process of its function to become free. Another one is started only if waiting does not help: there are few,
or none became free for a while because all are in long calls, such as a worker that waits for work over HTTP.

MiniStack also unpacks the five hundred files of the layer for each process. Here the first process unpacks
them into a folder, and the others get a link to it. As on AWS, functions do not change a layer.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
import zipfile
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

FEW = min(4, max(2, os.cpu_count() or 1))
PATIENCE_SECONDS = 0.1
"""How long an invocation waits before another process is started while there are few."""
STUCK_SECONDS = 1.0
"""After this time without a free process, more are started."""
_POLL_SECONDS = 0.1
_FIRST_LINE_SECONDS = 0.005
_LAYER = "layer_"


def share_processes(functions: Any, runtime: Any) -> None:
    """Patch MiniStack's Lambda service; `runtime` is its module with the pools of processes."""
    pool = _Pools(runtime)
    functions.acquire_worker = pool.acquire
    functions.release_worker = pool.release


class _Pools:
    """Invocations of a function wait in line. Only the first one polls: a hundred threads that wake ten
    times a second would leave the event loop no time."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._start = runtime.acquire_worker
        self._release = runtime.release_worker
        self._lines: dict[str, deque[threading.Condition]] = defaultdict(deque)
        self._last_free: dict[str, float] = defaultdict(float)

    def acquire(
        self, name: str, config: dict[str, Any], code: bytes, qualifier: str = "$LATEST", **options: Any
    ) -> tuple[Any, str]:
        """An idle process of this function, or a new one, with how it was found."""
        key = self._runtime._worker_key(name, config, qualifier)
        with self._runtime._lock:
            process = self._wait_for_process(key)
        if process is not None:
            return process, "reused"
        found: tuple[Any, str] = self._start(name, config, code, qualifier=qualifier, **options)
        return found

    def _wait_for_process(self, key: str) -> Any:
        """Wait in line for an idle process; None if another one is to be started."""
        arrived = time.time()
        line, turn = self._lines[key], threading.Condition(self._runtime._lock)
        line.append(turn)
        try:
            while True:
                while line[0] is not turn:
                    turn.wait()
                processes = self._runtime._workers.get(key, ())
                for process in processes:
                    if not process.in_use:
                        process.in_use, process.last_used = True, time.time()
                        return process
                if self._may_start(key, processes, arrived):
                    return None
                turn.wait(_POLL_SECONDS)
        finally:
            line.remove(turn)
            self._call_next(key)

    def _call_next(self, key: str) -> None:
        if line := self._lines[key]:
            line[0].notify()

    def _may_start(self, key: str, processes: Sequence[Any], arrived: float) -> bool:
        """One at a time: on a busy machine a start takes seconds, and further ones would make it slower."""
        if not processes:
            return True
        if any(process._start_time is None for process in processes):
            return False
        if len(processes) < FEW:
            return time.time() - arrived >= PATIENCE_SECONDS
        started: float = max(process._start_time for process in processes)
        return time.time() - max(arrived, started, self._last_free[key]) >= STUCK_SECONDS

    def release(self, process: Any) -> None:
        self._release(process)
        if process is None:
            return
        qualifier = process.config.get("Version", "$LATEST")
        key = self._runtime._worker_key(process.func_name, process.config, qualifier)
        with self._runtime._lock:
            self._last_free[key] = time.time()
            self._call_next(key)


def answer_without_delay(runtime: Any) -> None:
    """Patch MiniStack's processes, which wait after every answer for more lines of the log: 5 ms, or 50 ms if
    there is none, in which the process takes no other invocation and a thread wakes every millisecond.

    Functions write their lines before they answer, so here only the first is waited for. One that comes late
    is logged with the next invocation. After an error, the process has ended, and all its lines are read.
    """
    read_all = runtime.Worker._drain_stderr_bounded

    def read_arrived(process: Any, **options: Any) -> str:
        if process._proc is None:
            complete: str = read_all(process, **options)
            return complete
        lines: list[str] = []
        with suppress(Empty):
            lines.append(process._stderr_queue.get(timeout=_FIRST_LINE_SECONDS))
            while True:
                lines.append(process._stderr_queue.get_nowait())
        return "\n".join(lines)

    runtime.Worker._drain_stderr_bounded = read_arrived


def share_layers(runtime: Any) -> None:
    """Patch MiniStack's module that starts the processes of functions."""
    runtime.zipfile = _Zipfile(runtime.zipfile)


@dataclass(slots=True)
class _Folders:
    """The unpacked layers of this run, by a hash. Leftovers of an earlier run are removed in the
    background."""

    known: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Zipfile:
    """The module `zipfile`, with another class for the archives of layers."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._folders = _Folders()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def ZipFile(self, path: str) -> zipfile.ZipFile:  # noqa: N802 - a name of the module
        return _Layer(path, self._folders) if Path(path).name.startswith(_LAYER) else zipfile.ZipFile(path)


class _Layer(zipfile.ZipFile):
    def __init__(self, path: str, folders: _Folders) -> None:
        super().__init__(path)
        self._path = path
        self._folders = folders

    def namelist(self) -> list[str]:
        """Return no names: MiniStack would look up each name, and `extractall` stays within its folder
        anyway."""
        return []

    def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
        """Replace the empty folder `path` by a link to the unpacked files."""
        digest = hashlib.sha256(Path(self._path).read_bytes()).hexdigest()
        with self._folders.lock:
            if digest not in self._folders.known:
                folder = tempfile.mkdtemp(prefix="layer-")
                super().extractall(folder, members or super().namelist(), pwd)
                self._folders.known[digest] = folder
        os.rmdir(path)
        os.symlink(self._folders.known[digest], path, target_is_directory=True)
