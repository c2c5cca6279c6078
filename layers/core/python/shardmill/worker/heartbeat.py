"""The heartbeats of a worker: when they are sent, and how their answers are applied."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock

from shardmill.model.worker import HeartbeatAnswer, HeldTask, Worker
from shardmill.worker.inflight import InflightTasks
from shardmill.worker.server_calls import ServerCalls
from shardmill.worker.transport.base import Stale, Transport, TransportError

log = logging.getLogger("shardmill.worker")

SUSPENDED_SECONDS = 10.0
"""The longest interval while suspended, so that a resumed worker continues soon."""

EXTRA_SECONDS = 3.0
"""The shortest interval before an extra heartbeat, so that many short tasks cause few of them."""

_SETTLE_SECONDS = 0.2


class HeartbeatTimer:
    """Decides when the next heartbeat is due. One thread waits; any thread may signal a change."""

    def __init__(self, over: Event) -> None:
        self._over = over
        self._woken = Event()
        self._requested = False
        self._busy = False
        self._last = float("-inf")

    def changed(self) -> None:
        """The worker may have become busy or idle, or may have ended."""
        self._woken.set()

    def request(self) -> None:
        """Send a heartbeat soon, even if nothing changed."""
        self._requested = True
        self._woken.set()

    def sent(self, busy: bool) -> None:
        """Record that a heartbeat reported the worker as busy or idle."""
        self._busy, self._requested = busy, False

    def wait(self, seconds: float, busy: Callable[[], bool]) -> bool:
        """Wait until the next heartbeat is due, at most this long; False when the worker has ended."""
        due = time.monotonic() + seconds
        while not self._over.is_set():
            now = time.monotonic()
            if now >= due or not self._woken.wait(due - now):
                break
            soonest = max(time.monotonic() + _SETTLE_SECONDS, self._last + EXTRA_SECONDS)
            self._over.wait(max(0.0, min(soonest, due) - time.monotonic()))
            self._woken.clear()
            if self._requested or busy() != self._busy:
                break
        self._last = time.monotonic()
        return not self._over.is_set()


class HeartbeatLoop:
    """`once`: the worker ends when there is nothing to do, and therefore also when it is suspended."""

    def __init__(
        self,
        transport: Transport,
        tasks: InflightTasks,
        timer: HeartbeatTimer,
        calls: ServerCalls,
        *,
        once: bool = False,
    ) -> None:
        self._transport = transport
        self._tasks = tasks
        self._timer = timer
        self._calls = calls
        self._once = once
        self._name = ""
        self._suspended = False
        self._sending = Lock()
        self.leaving = False

    def registered(self, worker: Worker) -> None:
        """Apply the state of the worker at registration; it may have been suspended before."""
        self._name = worker.name
        self._apply(suspended=worker.activity == "suspended", drain=False)

    def run(self, seconds: float) -> None:
        """Send heartbeats until the worker has ended."""
        interval = seconds
        while self._timer.wait(self._capped(interval), lambda: self._tasks.holds_tasks):
            try:
                held, answer = self._send()
            except Stale:
                raise
            except TransportError as error:
                self._calls.failed("heartbeat", error)
                interval = seconds / 3
                continue
            self._calls.succeeded("heartbeat")
            interval = seconds = answer.heartbeat_seconds
            for task in self._tasks.drop(held, answer.drop):
                log.info(
                    "stopping a task that was killed, suspended or taken over",
                    extra={
                        "action": "task-dropped",
                        "task": task.lease.task_id,
                        "attempt": task.lease.attempt,
                    },
                )
            self._tasks.follow(answer.followed)
            self._apply(suspended=answer.suspended, drain=answer.drain, reason=answer.notes)

    def _capped(self, interval: float) -> float:
        return min(interval, SUSPENDED_SECONDS) if self._suspended else interval

    def _apply(self, *, suspended: bool, drain: bool, reason: str | None = None) -> None:
        self._suspended = suspended
        if self._tasks.suspend(suspended):
            if suspended:
                default = f"takes no tasks until `shardmill workers resume {self._name}`"
                log.warning("suspended: %s", reason or default, extra={"action": "suspended"})
            else:
                log.info("resumed: takes tasks again", extra={"action": "resumed"})
        drain = drain or (suspended and self._once)
        if self._tasks.drain(drain):
            if drain:
                log.info("draining: exits when its tasks have ended", extra={"action": "draining"})
            else:
                log.info("drain cancelled: takes tasks again", extra={"action": "drain-cancelled"})

    def _send(self, *, last: bool = False) -> tuple[list[HeldTask], HeartbeatAnswer]:
        """Send one heartbeat at a time, so that none is sent after the one that marks the worker offline."""
        with self._sending:
            held = [] if last else self._tasks.held()
            answer = self._transport.heartbeat(held, offline=self.leaving)
            self._timer.sent(bool(held))
            return held, answer

    def announce_leaving(self) -> None:
        """Request no more work, before tasks are handed back: a pending lease call would take them again."""
        self.leaving = True
        try:
            self._send()
        except TransportError as error:
            log.warning(
                "failed to announce the shutdown; a pending lease call may still receive tasks",
                extra={"action": "leave-failed", "error": str(error)},
            )

    def deregister(self) -> None:
        """Send the last heartbeat, which marks the worker offline."""
        self.leaving = True
        try:
            self._send(last=True)
        except TransportError as error:
            log.warning(
                "failed to deregister; the worker is shown as disconnected after three missed heartbeats",
                extra={"action": "deregister-failed", "error": str(error)},
            )
        else:
            log.info("offline", extra={"action": "offline"})
