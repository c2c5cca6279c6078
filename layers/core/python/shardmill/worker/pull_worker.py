"""The pull worker: one thread leases tasks, one per slot runs them, one reports, one sends heartbeats."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from shardmill.model.worker import MAX_WAIT_SECONDS, Lease, Registration, Result, Worker
from shardmill.worker.heartbeat import HeartbeatLoop, HeartbeatTimer
from shardmill.worker.inflight import MAX_SLOT_WAIT_SECONDS, InflightTask, InflightTasks
from shardmill.worker.metrics import Figures
from shardmill.worker.outcome import DISCARDED
from shardmill.worker.server_calls import ServerCalls
from shardmill.worker.shutdown import POLL_SECONDS, Killed, ShutdownWaits
from shardmill.worker.task import process
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.transport.base import WORKER_SUSPENDED, Refused, Stale, Transport, TransportError
from shardmill.worker.transport.reporting import log_ignored, report_results

log = logging.getLogger("shardmill.worker")

Progress = Callable[[str, Lease, Result | None], None]
"""Called with `started` and `ended` for each task, in its thread; a task without a result is handed back."""

EXIT_OK, EXIT_FAILED, EXIT_NO_GROUP, EXIT_KILLED = 0, 1, 3, 130
_ONCE_WAIT_SECONDS = 1
_SUSPENDED_SECONDS = 1.0
_LAST_REPORTS_SECONDS = 5.0
_LAST_HEARTBEAT_SECONDS = 5.0
_HAND_BACK_SECONDS = 15.0
_LAST_LEASE_SECONDS = 2.0
"""A lease call that stays pending longer receives no tasks: the worker has announced its shutdown."""


class _RegistrationRefused(Exception):
    """Shardmill does not accept this worker."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    grace_seconds: float = 10.0
    wait_seconds: int = MAX_WAIT_SECONDS
    once: bool = False
    max_tasks: int | None = None


class PullWorker:
    def __init__(
        self,
        transport: Transport,
        registration: Registration,
        runtime: Runtime,
        options: WorkerOptions,
        progress: Progress | None = None,
    ) -> None:
        self._transport = transport
        self.registration = registration
        self._runtime = runtime
        self._options = options
        self._progress = progress
        self._halt = Event()
        self._over = Event()
        self._timer = HeartbeatTimer(self._over)
        self._tasks = InflightTasks(registration.slots, options.max_tasks, self._timer.changed)
        self._calls = ServerCalls()
        self._waits = ShutdownWaits(lambda: self.signals)
        self._heartbeats = HeartbeatLoop(transport, self._tasks, self._timer, self._calls, once=options.once)
        self._slots = 0
        self._cut_short: list[Lease] = []
        self._session_lost = False
        self._leasing_threads: list[Thread] = []
        self._heartbeat_thread: Thread | None = None
        self._handed_back = 0
        self.code = EXIT_OK
        self.signals = 0

    def run(self, stop: Event | None = None) -> int:
        """Run tasks until a signal, `stop`, or the end of the work; return the exit code."""
        self._leasing_threads.append(self._start(self._work, "lease"))
        while not self._halt.wait(POLL_SECONDS):
            if self.signals or (stop and stop.is_set()):
                log.info(
                    "stopping; running tasks may finish within the grace period",
                    extra={"action": "stopping", "graceSeconds": self._options.grace_seconds},
                )
                self._halt.set()
            elif self._tasks.drained:
                self._halt.set()
        try:
            self._shut_down()
        except Killed:
            process.kill_all()
            log.warning(
                "killed by a second signal; its tasks run again after their lease", extra={"action": "killed"}
            )
            self.code = EXIT_KILLED
        return self.code

    def _start(self, work: Callable[[], None], name: str) -> Thread:
        """Start a thread whose failure ends the worker."""

        def guarded() -> None:
            try:
                work()
            except _RegistrationRefused as error:
                log.error(  # noqa: TRY400  a traceback would add nothing
                    "Shardmill refused the registration: %s", error, extra={"action": "registration-refused"}
                )
                self._end(self.code or EXIT_FAILED, session_lost=True)
            except Stale as error:
                if self._heartbeats.leaving:  # the announcement of the shutdown ended its lease call
                    return
                log.error(  # noqa: TRY400
                    "the session of this worker has ended: %s", error, extra={"action": "session-ended"}
                )
                self._end(EXIT_FAILED, session_lost=True)
            except Exception:
                log.exception(
                    "a thread of the worker failed; the worker stops",
                    extra={"action": "thread-failed", "loop": name},
                )
                self._end(EXIT_FAILED)

        thread = Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _end(self, code: int, *, session_lost: bool = False) -> None:
        self.code = code
        self._session_lost |= session_lost
        self._halt.set()

    # leasing

    def _work(self) -> None:
        worker = self._calls.until_success("register", self._register, self._halt)
        if not worker:
            return
        registered = {"worker": worker.name, "id": worker.id, "session": worker.session}
        log.info("registered", extra={"action": "registered", **registered})
        self._heartbeats.registered(worker)
        self._tasks.size.largest = self._transport.largest_batch
        self._heartbeat_thread = self._start(
            partial(self._heartbeats.run, worker.heartbeat_seconds), "heartbeat"
        )
        self._start(self._report, "report")
        self._leasing_threads.append(self._start(self._hand_back_overdue, "hand-back-overdue"))
        while room := self._tasks.wait_for_room():
            leases = self._lease(room)
            if leases is None:
                return
            self._accept(leases)
            if not leases and self._options.once and self._tasks.idle:
                break
        self._tasks.wait_until_idle()
        self._halt.set()

    def _register(self) -> Worker:
        try:
            return self._transport.register(self.registration)
        except Refused as error:
            self.code = EXIT_NO_GROUP if error.code == "group-not-found" else EXIT_FAILED
            raise _RegistrationRefused(str(error)) from error

    @property
    def _wait_seconds(self) -> int:
        return _ONCE_WAIT_SECONDS if self._options.once else self._options.wait_seconds

    def _lease(self, room: int) -> list[Lease] | None:
        def call() -> list[Lease]:
            try:
                return self._transport.lease(room, self._wait_seconds)
            except Refused as error:
                if error.code != WORKER_SUSPENDED:
                    raise
                self._timer.request()  # the answer to the next heartbeat has the reason
                self._halt.wait(min(_SUSPENDED_SECONDS, self._wait_seconds / 4))
                return []

        return self._calls.until_success("lease", call, self._halt)

    def _accept(self, leases: Sequence[Lease]) -> None:
        """Run noop tasks in this thread, and start slots for the others."""
        accepted = self._tasks.accept(leases)
        if len(accepted) < len(leases):
            self._hand_back(leases, "the worker was suspended, drained or stopped when it received the task")
        for task in accepted:
            if task.lease.type == "noop" and self._tasks.start(task):
                self._run(task)
        while self._slots < min(self.registration.slots, self._tasks.occupied):
            self._slots += 1
            self._start(self._run_slot, f"slot {self._slots}")

    def _hand_back_overdue(self) -> None:
        """Hand back tasks that were leased early and have waited too long for a slot."""
        while not self._halt.wait(MAX_SLOT_WAIT_SECONDS / 2):
            waited = f"no slot of the worker was free for {MAX_SLOT_WAIT_SECONDS:g} seconds"
            self._hand_back(self._tasks.take_overdue(), waited)

    # running

    def _run_slot(self) -> None:
        while task := self._tasks.next():
            self._run(task)

    def _run(self, task: InflightTask) -> None:
        lease = task.lease
        self._notify("started", lease, None)
        result = execute(lease, self._runtime, task.stop, live=task.live)
        cut_short = task.abandoned and result.reason == DISCARDED
        if cut_short:
            self._cut_short.append(lease)
        elif result.outcome != "success":
            fields = result.model_dump(include={"attempt", "outcome", "reason"})
            log.info(
                "a task did not succeed", extra={"action": "task-failed", "task": result.task_id, **fields}
            )
        self._tasks.finish(task, None if cut_short else result)
        self._notify("ended", lease, None if cut_short else result)

    def _notify(self, event: str, lease: Lease, result: Result | None) -> None:
        if self._progress:
            self._progress(event, lease, result)

    # reporting

    def _report(self) -> None:
        while batch := self._tasks.take_results():
            send = partial(report_results, self._transport.report, [result for _, result in batch])
            answers = self._calls.until_success("report", send, self._over)
            if answers is None:
                return
            log_ignored(answers)
            self._tasks.reported(batch)

    # observers

    def running(self) -> list[InflightTask]:
        return self._tasks.running()

    def figures(self) -> Figures:
        """The values of the worker's metrics."""
        calls, failures = self._calls.counts()
        return {
            **self._tasks.figures(),
            "tasks_handed_back_total": self._handed_back,
            "calls_total": calls,
            "call_failures_total": failures,
        }

    # shutdown

    def _shut_down(self) -> None:
        not_started = self._tasks.close()
        self._transport.close()
        if self._heartbeat_thread and not self._session_lost:
            self._call("leave", self._heartbeats.announce_leaving, _LAST_HEARTBEAT_SECONDS)
        self._hand_back_in_time(not_started, "the worker stopped before the task started")
        if not self._session_lost:
            self._waits.wait(self._tasks.wait_for_tasks, self._options.grace_seconds)
        self._tasks.abandon()
        self._waits.wait(self._tasks.wait_for_tasks, self._runtime.kill_seconds + 1)
        if not self._session_lost:
            self._hand_back_in_time(self._cut_short, "the worker stopped while the task ran")
            if not self._waits.wait(self._tasks.wait_for_reports, _LAST_REPORTS_SECONDS):
                log.error(
                    "exiting with unreported results; their tasks run again after their lease",
                    extra={"action": "results-lost", "results": self._tasks.unreported},
                )
                self.code = EXIT_FAILED
            self._wait_for_leasing_threads()
        self._over.set()
        self._timer.changed()
        self._tasks.end_reporting()
        if self._heartbeat_thread and not self._session_lost:
            self._waits.join(self._heartbeat_thread, _LAST_REPORTS_SECONDS)
            self._call("deregister", self._heartbeats.deregister, _LAST_HEARTBEAT_SECONDS)

    def _hand_back_in_time(self, leases: Sequence[Lease], reason: str) -> None:
        if leases:
            self._call("hand-back", partial(self._hand_back, leases, reason), _HAND_BACK_SECONDS)

    def _wait_for_leasing_threads(self) -> None:
        """A thread with a pending lease call hands back the tasks that it receives."""
        deadline = time.monotonic() + _LAST_LEASE_SECONDS
        for thread in self._leasing_threads:
            if not self._waits.join(thread, max(0.0, deadline - time.monotonic())):
                log.info(
                    "not waiting for a pending call; the tasks that it receives run again after their lease",
                    extra={"action": "call-abandoned", "call": thread.name},
                )

    def _call(self, name: str, call: Callable[[], None], seconds: float) -> None:
        """Call in a thread, so that a second signal takes effect during a long call."""
        self._waits.join_or_abandon(self._start(call, name), seconds)

    def _hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        if not leases:
            return
        try:
            self._transport.hand_back(leases, reason)
        except TransportError as error:
            log.warning(
                "failed to hand back tasks; they run again after their lease",
                extra={"action": "hand-back-failed", "tasks": len(leases), "error": str(error)},
            )
        else:
            self._handed_back += len(leases)
            log.info("handed back tasks", extra={"action": "handed-back", "tasks": len(leases)})
