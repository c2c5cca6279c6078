"""The pull worker: one thread leases, one a slot runs, one reports, one beats, and this one waits for the end."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from shardmill.model.worker import MAX_WAIT_SECONDS, Lease, Registration, Result, Worker
from shardmill.worker import process
from shardmill.worker.desk import Desk, Held
from shardmill.worker.execute import DISCARDED, Workshop, execute
from shardmill.worker.programs import Programs
from shardmill.worker.retry import Insistence
from shardmill.worker.transport import Refused, Stale, Transport, TransportError

log = logging.getLogger("shardmill.worker")

Progress = Callable[[str, Lease, Result | None], None]
"""Told `started` and `ended` of each task, in the thread that ran it."""

FINE, FAILED, NO_GROUP, KILLED = 0, 1, 3, 130
_ONCE_WAIT_SECONDS = 1
_LOOK_SECONDS = 0.1
_REPORT_SECONDS = 5.0


class PullWorker:
    def __init__(
        self,
        transport: Transport,
        registration: Registration,
        shop: Workshop,
        *,
        grace_seconds: float,
        wait_seconds: int,
        once: bool,
        max_tasks: int | None,
        progress: Progress | None,
    ) -> None:
        self._transport = transport
        self._registration = registration
        self._shop = shop
        self._grace = grace_seconds
        self._wait = wait_seconds
        self._once = once
        self._progress = progress or (lambda kind, lease, result: None)
        self._desk = Desk(registration.slots, max_tasks)
        self._insist = Insistence()
        self._halt = Event()
        self._give_up = Event()
        self._code = FINE
        self._lost = False
        self.signals = 0

    def run(self, stop: Event | None) -> int:
        worker = self._register(stop)
        if not worker:
            return self._code
        log.info(
            "registered worker=%s id=%s session=%d groups=%s slots=%d",
            *(worker.name, worker.id, worker.session, ",".join(worker.groups), self._registration.slots),
        )
        slots = [self._thread(self._run_tasks, f"slot {n}") for n in range(self._registration.slots)]
        self._thread(self._lease, "lease")
        self._thread(self._report, "report")
        beats = self._thread(lambda: self._beat(worker.heartbeat_seconds), "heartbeat")
        while not self._halt.wait(_LOOK_SECONDS):
            self._heed(stop)
        self._wind_up(slots)
        self._give_up.set()
        self._desk.finish()
        beats.join(_LOOK_SECONDS)
        return self._code
