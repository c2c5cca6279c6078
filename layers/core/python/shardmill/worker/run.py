"""Run a pull worker in this process, from its settings to its exit code."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Any

from shardmill.model.worker import MAX_WAIT_SECONDS, Registration
from shardmill.worker.files.cache import Cache
from shardmill.worker.machine import own_address
from shardmill.worker.pull_worker import Progress, PullWorker, WorkerOptions
from shardmill.worker.task.bounds import Limits
from shardmill.worker.task.execute import Runtime
from shardmill.worker.task.programs import Programs
from shardmill.worker.task.task_files import FileAccess
from shardmill.worker.task.workdir import create_worker_dir
from shardmill.worker.transport.base import Transport

Observer = Callable[[PullWorker], AbstractContextManager[object]]
"""Observes a worker: entered before the worker starts, left after it has ended."""

_NO_LIMITS = Limits()


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
    limits: Limits = _NO_LIMITS,
    switch_user: bool = False,
    task_user: str | None = None,
    allow_hosts: Sequence[str] = (),
    cache: Cache | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    observers: Sequence[Observer] = (),
    stop: Event | None = None,
    wait_seconds: int = MAX_WAIT_SECONDS,
) -> int:
    """Run tasks until a signal, `stop`, or, with `once` or `max_tasks`, the end of the work. Returns the exit
    code.

    `grace_seconds`: the time that running tasks have to finish when the worker stops. `kill_seconds`: the
    time between SIGTERM and SIGKILL, 5 s unless the grace period is shorter. `about`: more fields of the
    registration.
    """
    kill = min(5.0, max(0.5, grace_seconds)) if kill_seconds is None else kill_seconds
    registration = Registration(
        name=name,
        groups=list(groups),
        host=socket.gethostname()[:256],
        cores=os.cpu_count() or 1,
        apps=list(apps),
        slots=slots,
        **{"user": _user(), "ip": own_address(), **(about or {})},
    )
    options = WorkerOptions(grace_seconds, wait_seconds, once, max_tasks)
    with nullcontext(work_root) if work_root else create_worker_dir(keep=keep_work) as root:
        runtime = Runtime(
            root,
            programs or default_programs(),
            transport.logs,
            keep_work,
            kill,
            limits=limits,
            switch_user=switch_user,
            task_user=task_user,
            allow_hosts=tuple(allow_hosts),
            files=FileAccess(transport.files, cache, tuple(allow_hosts)),
        )
        worker = PullWorker(transport, registration, runtime, options, progress)
        with ExitStack() as stack:
            stack.enter_context(_signals_to(worker))
            for observer in observers:
                stack.enter_context(observer(worker))
            code = worker.run(stop)
    if worker.signals > 1:
        _exit_now(code)
    return code


def _exit_now(code: int) -> None:
    """Exit after a second signal, without finalising the interpreter under threads that still run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def default_programs(**named: str) -> Programs:
    """The programs on PATH; python tasks also import modules from the current folder."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return Programs(python_path=(os.getcwd(), *filter(None, path)), **named)


def _user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return os.environ.get("USER")


@contextmanager
def _signals_to(worker: PullWorker) -> Iterator[None]:
    """Count the termination signals; the handler does nothing else, as it may interrupt any code."""

    def count(*_: object) -> None:
        worker.signals += 1

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, count) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
