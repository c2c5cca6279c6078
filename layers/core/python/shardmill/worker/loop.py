"""Running a pull worker in this process, from its settings to its exit code."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from shardmill.model.worker import MAX_WAIT_SECONDS, Registration
from shardmill.worker.execute import Workshop
from shardmill.worker.programs import Programs
from shardmill.worker.pull import Manner, Progress, PullWorker
from shardmill.worker.transport import Transport


def run_worker(
    groups: Sequence[str],
    slots: int,
    transport: Transport,
    *,
    name: str,
    apps: Sequence[str] = ("*",),
    grace_seconds: float = 10.0,
    kill_seconds: float | None = None,
    keep_work: bool = False,
    work_root: Path | None = None,
    once: bool = False,
    max_tasks: int | None = None,
    programs: Programs | None = None,
    progress: Progress | None = None,
    stop: Event | None = None,
    wait_seconds: int = MAX_WAIT_SECONDS,
) -> int:
    """Work until a signal, `stop`, or, with `once` or `max_tasks`, the end of the work; the exit code.

    `grace_seconds`: what running tasks have to come to their end when the worker stops. `kill_seconds`: what
    a program has between SIGTERM and SIGKILL, 5 s unless the grace is shorter.
    """
    kill = min(5.0, max(0.5, grace_seconds)) if kill_seconds is None else kill_seconds
    registration = Registration(
        name=name,
        groups=list(groups),
        host=socket.gethostname()[:256],
        cores=os.cpu_count() or 1,
        apps=list(apps),
        slots=slots,
        user=os.environ.get("USER"),
    )
    manner = Manner(grace_seconds, wait_seconds, once, max_tasks)
    with _root(work_root, keep_work) as root:
        shop = Workshop(root, programs or _own_programs(), transport.logs, keep_work, kill)
        worker = PullWorker(transport, registration, shop, manner, progress)
        with _signals_to(worker):
            code = worker.run(stop)
    if worker.signals > 1:
        _leave_at_once(code)
    return code


def _leave_at_once(code: int) -> None:
    """After a second signal: threads that are still at work would trip over the end of the interpreter."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _own_programs() -> Programs:
    """Python tasks find the modules of the folder that the worker was started in."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return Programs(python_path=(os.getcwd(), *filter(None, path)))


@contextmanager
def _root(given: Path | None, keep: bool) -> Iterator[Path]:
    if given:
        yield given
        return
    root = Path(tempfile.mkdtemp(prefix="shardmill-worker-"))
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _signals_to(worker: PullWorker) -> Iterator[None]:
    """Count the signals that ask for an end; the handler does no more, as it may interrupt anything."""

    def count(*_: object) -> None:
        worker.signals += 1

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, count) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
