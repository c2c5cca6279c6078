"""The heartbeat: what a worker says of itself while it lives, and what it is told in answer."""

from __future__ import annotations

import logging
from threading import Lock

from shardmill.model.worker import HeartbeatAnswer, HeldTask, Worker
from shardmill.worker.desk import Desk
from shardmill.worker.pulse import Pulse
from shardmill.worker.retry import Insistence
from shardmill.worker.transport import Stale, Transport, TransportError

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
