"""The pull worker: one thread leases, one a slot runs, one reports, one beats; the caller awaits the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from shardmill.model.worker import MAX_WAIT_SECONDS, Lease, Registration, Result, Worker
from shardmill.worker.heartbeat import Heart, Pulse
from shardmill.worker.inflight import PATIENCE_SECONDS, Desk, Held
from shardmill.worker.metrics import Figures
from shardmill.worker.retry import Insistence
from shardmill.worker.task import process
from shardmill.worker.task.execute import DISCARDED, Workshop, execute, unrun
from shardmill.worker.transport.base import RESTING, Refused, Stale, Transport, TransportError
from shardmill.worker.transport.reporting import deliver

log = logging.getLogger("shardmill.worker")

Progress = Callable[[str, Lease, Result | None], None]
"""Told `started` and `ended` of each task, in the thread that runs it; no result: it was handed back."""

FINE, FAILED, NO_GROUP, KILLED = 0, 1, 3, 130
_ONCE_WAIT_SECONDS = 1
_REST_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_LAST_REPORTS_SECONDS = 5.0
_LAST_WORD_SECONDS = 5.0
_HAND_BACK_SECONDS = 15.0
_LAST_LEASE_SECONDS = 2.0
"""A lease that waits longer at the other end gets nothing any more: it was said that we are going."""


class _NotAccepted(Exception):
    """Shardmill does not want this worker."""


class _Killed(Exception):
    """The second signal: no more waiting."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a worker goes about its work."""

    grace_seconds: float = 10.0
    wait_seconds: int = MAX_WAIT_SECONDS
    once: bool = False
    max_tasks: int | None = None


class PullWorker:
    def __init__(
        self,
        transport: Transport,
        registration: Registration,
        shop: Workshop,
        manner: Manner,
        progress: Progress | None = None,
    ) -> None:
        self._transport = transport
        self._registration = registration
        self._shop = shop
        self._manner = manner
        self._progress = progress
        self._halt = Event()
        self._over = Event()
        self._pulse = Pulse(self._over)
        self._desk = Desk(registration.slots, manner.max_tasks, self._pulse.turned)
        self._insistence = Insistence()
        self._heart = Heart(transport, self._desk, self._pulse, self._insistence, once=manner.once)
        self._slots = 0
        self._cut: list[Lease] = []
        self._lost = False
        self._takers: list[Thread] = []
        self._beats: Thread | None = None
        self._handed_back = 0
        self.code = FINE
        self.signals = 0

    def run(self, stop: Event | None = None) -> int:
        """Until a signal, `stop`, or the end of the work; the exit code."""
        self._takers.append(self._start(self._work, "lease"))
        while not self._halt.wait(_LOOK_SECONDS):
            if self.signals or (stop and stop.is_set()):
                log.info("stopping grace=%gs", self._manner.grace_seconds)
                self._halt.set()
            elif self._desk.drained:
                self._halt.set()
        try:
            self._wind_up()
        except _Killed:
            process.kill_all()
            log.warning("killed")
            self.code = KILLED
        return self.code

    def _start(self, work: Callable[[], None], name: str) -> Thread:
        """A thread whose fault ends the worker."""

        def guarded() -> None:
            try:
                work()
            except _NotAccepted as error:
                log.error("refused error=%s", error)  # noqa: TRY400  the sentence says it all
                self._end(self.code or FAILED, lost=True)
            except Stale as error:
                if self._heart.leaving:  # a lease that still waited has learnt that we are going
                    return
                log.error("stale error=%s", error)  # noqa: TRY400
                self._end(FAILED, lost=True)
            except Exception:
                log.exception("broken thread=%s", name)
                self._end(FAILED)

        thread = Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _end(self, code: int, *, lost: bool = False) -> None:
        self.code = code
        self._lost |= lost
        self._halt.set()

    # leasing

    def _work(self) -> None:
        worker = self._insistence.until_done("register", self._register, self._halt)
        if not worker:
            return
        log.info("registered worker=%s id=%s session=%d", worker.name, worker.id, worker.session)
        self._heart.awake(worker)
        self._beats = self._start(partial(self._heart.beat_on, worker.heartbeat_seconds), "heartbeat")
        self._start(self._report, "report")
        self._takers.append(self._start(self._pass_on, "pass on"))
        while room := self._desk.await_room():
            leases = self._lease(room)
            if leases is None:
                return
            self._take_up(leases)
            if not leases and self._manner.once and self._desk.idle:
                break
        self._desk.await_idle()
        self._halt.set()

    def _register(self) -> Worker:
        try:
            return self._transport.register(self._registration)
        except Refused as error:
            self.code = NO_GROUP if error.code == "group-not-found" else FAILED
            raise _NotAccepted(str(error)) from error

    @property
    def _wait_seconds(self) -> int:
        return _ONCE_WAIT_SECONDS if self._manner.once else self._manner.wait_seconds

    def _lease(self, room: int) -> list[Lease] | None:
        def ask() -> list[Lease]:
            try:
                return self._transport.lease(room, self._wait_seconds)
            except Refused as error:
                if error.code != RESTING:
                    raise
                self._pulse.ask()  # the next beat tells why
                self._halt.wait(min(_REST_SECONDS, self._wait_seconds / 4))
                return []

        return self._insistence.until_done("lease", ask, self._halt)

    def _take_up(self, leases: Sequence[Lease]) -> None:
        """Tasks that do nothing end here and now; the others get a slot each, as slots are free."""
        accepted = self._desk.accept(leases)
        if len(accepted) < len(leases):
            self._hand_back(leases)
        for held in accepted:
            if held.lease.type == "noop" and self._desk.begin(held):
                self._run(held)
        while self._slots < min(self._registration.slots, self._desk.busy):
            self._slots += 1
            self._start(self._serve_slot, f"slot {self._slots}")

    def _pass_on(self) -> None:
        """Tasks that were leased before there was a slot for them do not wait for long."""
        while not self._halt.wait(PATIENCE_SECONDS / 2):
            self._hand_back(self._desk.overdue())

    # running

    def _serve_slot(self) -> None:
        while held := self._desk.next():
            self._run(held)

    def _run(self, held: Held) -> None:
        self._tell("started", held.lease, None)
        try:
            result = execute(held.lease, self._shop, held.stop, live=held.live)
        except Exception as error:
            log.exception("not-run task=%s attempt=%d", held.lease.task_id, held.lease.attempt)
            result = unrun(held.lease, f"the worker could not run it: {error}")
        given_up = held.abandoned and result.reason == DISCARDED
        if given_up:
            self._cut.append(held.lease)
        elif result.outcome != "success":
            log.info("ended task=%s attempt=%d outcome=%s reason=%s", *_of(result))
        self._desk.end(held, None if given_up else result)
        self._tell("ended", held.lease, None if given_up else result)

    def _tell(self, kind: str, lease: Lease, result: Result | None) -> None:
        if self._progress:
            self._progress(kind, lease, result)

    # reporting

    def _report(self) -> None:
        while batch := self._desk.take_results():
            send = partial(deliver, self._transport.report, [result for _, result in batch])
            answers = self._insistence.until_done("report", send, self._over)
            if answers is None:
                return
            for answer in answers:
                if answer.status not in ("ok", "already"):
                    log.warning(
                        "not-counted task=%s attempt=%d status=%s",
                        *(answer.task_id, answer.attempt, answer.status),
                    )
            self._desk.reported(batch)

    # onlookers

    def running(self) -> list[Held]:
        return self._desk.running()

    def figures(self) -> Figures:
        """What it does and has done."""
        calls, failures = self._insistence.counts()
        return {
            **self._desk.figures(),
            "tasks_handed_back_total": self._handed_back,
            "calls_total": calls,
            "call_failures_total": failures,
        }

    # the end

    def _wind_up(self) -> None:
        unbegun = self._desk.close()
        self._transport.close()
        if self._beats and not self._lost:
            self._call("leave", self._heart.leave, _LAST_WORD_SECONDS)
        self._give_back(unbegun)
        if not self._lost:
            self._await(self._desk.await_ends, self._manner.grace_seconds)
        self._desk.abandon()
        self._await(self._desk.await_ends, self._shop.kill_seconds + 1)
        if not self._lost:
            self._give_back(self._cut)
            if not self._await(self._desk.await_reports, _LAST_REPORTS_SECONDS):
                log.error("unsent results=%d: their tasks run again after the lease", self._desk.unsent)
                self.code = FAILED
            self._await_takers()
        self._over.set()
        self._pulse.turned()
        self._desk.finish()
        if self._beats and not self._lost:
            self._await(partial(_ended, self._beats), _LAST_REPORTS_SECONDS)
            self._call("good-bye", self._heart.say_good_bye, _LAST_WORD_SECONDS)

    def _give_back(self, leases: Sequence[Lease]) -> None:
        if leases:
            self._call("hand-back", partial(self._hand_back, leases), _HAND_BACK_SECONDS)

    def _await_takers(self) -> None:
        """What a lease in flight brings is handed back by the thread that asked for it."""
        deadline = time.monotonic() + _LAST_LEASE_SECONDS
        for taker in self._takers:
            if not self._await(partial(_ended, taker), max(0.0, deadline - time.monotonic())):
                log.info("unanswered call=%s: what it may bring runs again after the lease", taker.name)

    def _call(self, what: str, call: Callable[[], None], seconds: float) -> None:
        """In a thread of its own, so that a second signal is heard however long the other end takes."""
        if not self._await(partial(_ended, self._start(call, what)), seconds):
            log.warning("unanswered call=%s seconds=%g", what, seconds)

    def _await(self, wait: Callable[[float], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not wait(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
            if self.signals > 1:
                raise _Killed
            if time.monotonic() >= deadline:
                return False
        return True

    def _hand_back(self, leases: Sequence[Lease]) -> None:
        if not leases:
            return
        log.info("handing-back tasks=%d", len(leases))
        try:
            self._transport.hand_back(leases)
        except TransportError as error:
            log.warning("not-handed-back tasks=%d error=%s", len(leases), error)
        else:
            self._handed_back += len(leases)


def _ended(thread: Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()


def _of(result: Result) -> tuple[str, int, str, str | None]:
    return result.task_id, result.attempt, result.outcome, result.reason
