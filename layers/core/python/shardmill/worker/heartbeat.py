"""The heartbeat: what a worker says of itself while it lives, and what it is told in answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock

from shardmill.model.worker import HeartbeatAnswer, HeldTask, Worker
from shardmill.worker.inflight import Desk
from shardmill.worker.retry import Insistence
from shardmill.worker.transport.base import Stale, Transport, TransportError

log = logging.getLogger("shardmill.worker")

RESTING_SECONDS = 10.0
"""One that rests asks at least so often whether it may go on, however long its leases are."""


class Heart:
    """`once`: a worker that ends when there is nothing to do; so it does when it may do nothing."""

    def __init__(
        self, transport: Transport, desk: Desk, pulse: Pulse, insistence: Insistence, *, once: bool = False
    ) -> None:
        self._transport = transport
        self._desk = desk
        self._pulse = pulse
        self._insistence = insistence
        self._once = once
        self._name = ""
        self._resting = False
        self._beating = Lock()
        self.leaving = False

    def awake(self, worker: Worker) -> None:
        """It registered; it may have been suspended before."""
        self._name = worker.name
        self._obey(suspended=worker.activity == "suspended", drain=False)

    def beat_on(self, seconds: float) -> None:
        """Until the worker is over."""
        pause = seconds
        while self._pulse.await_next(self._no_longer_than(pause), lambda: self._desk.holding):
            try:
                held, answer = self._beat()
            except Stale:
                raise
            except TransportError as error:
                self._insistence.failed("heartbeat", error)
                pause = seconds / 3
                continue
            self._insistence.worked("heartbeat")
            pause = seconds = answer.heartbeat_seconds
            for dropped in self._desk.drop(held, answer.drop):
                log.info("dropped task=%s attempt=%d", dropped.lease.task_id, dropped.lease.attempt)
            self._desk.follow(answer.followed)
            self._obey(suspended=answer.suspended, drain=answer.drain, why=answer.notes)

    def _no_longer_than(self, pause: float) -> float:
        return min(pause, RESTING_SECONDS) if self._resting else pause

    def _obey(self, *, suspended: bool, drain: bool, why: str | None = None) -> None:
        self._resting = suspended
        if self._desk.pause(suspended):
            if suspended:
                hint = f"takes no tasks until `shardmill workers resume {self._name}`"
                log.warning("suspended: %s", why or hint)
            else:
                log.info("resumed")
        drain = drain or (suspended and self._once)
        if self._desk.drain(drain):
            log.info("draining: leaves when what it holds has ended" if drain else "drained-no-more")

    def _beat(self, *, last: bool = False) -> tuple[list[HeldTask], HeartbeatAnswer]:
        """Beats go out one after the other, so that the last word on leaving is the last one said."""
        with self._beating:
            held = [] if last else self._desk.held()
            answer = self._transport.heartbeat(held, offline=self.leaving)
            self._pulse.beaten(bool(held))
            return held, answer

    def leave(self) -> None:
        """Take no more work: said before anything is handed back, or a waiting lease would take it again."""
        self.leaving = True
        try:
            self._beat()
        except TransportError as error:
            log.warning("leaving-unsaid error=%s", error)

    def say_good_bye(self) -> None:
        self.leaving = True
        try:
            self._beat(last=True)
        except TransportError as error:
            log.warning("no-good-bye error=%s", error)
        else:
            log.info("offline")


EXTRA_SECONDS = 3.0
"""An extra beat keeps this distance from the one before it, so that a flood of small tasks costs little."""

_SETTLE_SECONDS = 0.2


class Pulse:
    """Awaited by one thread, told of changes by any."""

    def __init__(self, over: Event) -> None:
        self._over = over
        self._woken = Event()
        self._asked = False
        self._told = False
        self._last = float("-inf")

    def turned(self) -> None:
        """It may have become busy, idle, or over."""
        self._woken.set()

    def ask(self) -> None:
        """Whatever it does, Shardmill has something to tell it."""
        self._asked = True
        self._woken.set()

    def beaten(self, busy: bool) -> None:
        """Shardmill knows now that it is busy, or not."""
        self._told, self._asked = busy, False

    def await_next(self, seconds: float, busy: Callable[[], bool]) -> bool:
        """Until the next beat is due, in so many seconds or earlier; False when it is over."""
        due = time.monotonic() + seconds
        while not self._over.is_set():
            now = time.monotonic()
            if now >= due or not self._woken.wait(due - now):
                break
            soonest = max(time.monotonic() + _SETTLE_SECONDS, self._last + EXTRA_SECONDS)
            self._over.wait(max(0.0, min(soonest, due) - time.monotonic()))
            self._woken.clear()
            if self._asked or busy() != self._told:
                break
        self._last = time.monotonic()
        return not self._over.is_set()
