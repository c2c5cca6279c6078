"""Running a pull worker in this process, from its settings to its exit code."""

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
from shardmill.worker.files.task_files import Errands
from shardmill.worker.pull_worker import Manner, Progress, PullWorker
from shardmill.worker.task.execute import Limits, Workshop
from shardmill.worker.task.programs import Programs
from shardmill.worker.task.workdir import a_root
from shardmill.worker.transport.base import Transport

Onlooker = Callable[[PullWorker], AbstractContextManager[object]]
"""Looks at a worker while it works: entered before it starts, left when it is over."""

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
    allow_hosts: Sequence[str] = (),
    cache: Cache | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    onlookers: Sequence[Onlooker] = (),
    stop: Event | None = None,
    wait_seconds: int = MAX_WAIT_SECONDS,
) -> int:
    """Work until a signal, `stop`, or, with `once` or `max_tasks`, the end of the work; the exit code.

    `grace_seconds`: what running tasks have to come to their end when the worker stops. `kill_seconds`: what
    a program has between SIGTERM and SIGKILL, 5 s unless the grace is shorter. `about`: what else it says of
    itself when it registers.
    """
    kill = min(5.0, max(0.5, grace_seconds)) if kill_seconds is None else kill_seconds
    registration = Registration(
        name=name,
        groups=list(groups),
        host=socket.gethostname()[:256],
        cores=os.cpu_count() or 1,
        apps=list(apps),
        slots=slots,
        **{"user": _user(), **(about or {})},
    )
    manner = Manner(grace_seconds, wait_seconds, once, max_tasks)
    with nullcontext(work_root) if work_root else a_root(keep=keep_work) as root:
        shop = Workshop(
            root,
            programs or own_programs(),
            transport.logs,
            keep_work,
            kill,
            limits=limits,
            switch_user=switch_user,
            allow_hosts=tuple(allow_hosts),
            errands=Errands(transport.files, cache, tuple(allow_hosts)),
        )
        worker = PullWorker(transport, registration, shop, manner, progress)
        with ExitStack() as stack:
            stack.enter_context(_signals_to(worker))
            for onlooker in onlookers:
                stack.enter_context(onlooker(worker))
            code = worker.run(stop)
    if worker.signals > 1:
        _leave_at_once(code)
    return code


def _leave_at_once(code: int) -> None:
    """After a second signal: threads that are still at work would trip over the end of the interpreter."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def own_programs(**named: str) -> Programs:
    """Python tasks find the modules of the folder that the worker was started in."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return Programs(python_path=(os.getcwd(), *filter(None, path)), **named)


def _user() -> str | None:
    """Who it runs as, if that user has a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return os.environ.get("USER")


@contextmanager
def _signals_to(worker: PullWorker) -> Iterator[None]:
    """Count the signals that ask for an end; the handler does no more, as it may interrupt anything."""

    def count(*_: object) -> None:
        worker.signals += 1

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup would have it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, count) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
