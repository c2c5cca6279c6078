"""A worker that uses AWS directly, with an IAM role: it polls SQS and writes to the table itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from threading import Lock

from shardmill.aws import clients
from shardmill.aws.queues import BATCH, Message
from shardmill.aws.settings import Settings
from shardmill.engine.groups.lanes import forget_outdated
from shardmill.engine.groups.matching import WorkerSession, group_rows, suspension_reasons
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import GROUP_CACHE_MS, MIXED_GROUP_CACHE_MS, Mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.lease import delete_void, lease, lease_behind
from shardmill.engine.tasks.report import report
from shardmill.engine.views.workers import heartbeat_answer, worker_view
from shardmill.engine.workers import registry
from shardmill.model.worker import HeartbeatAnswer, HeldTask, Lease, Registration, Reported, Result, Worker
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally
from shardmill.worker.logs import BucketLogs, LogStore
from shardmill.worker.transport.base import WORKER_SUSPENDED, FileUrls, Refused, TransportError, handed_back
from shardmill.worker.transport.clock import MeasuredClock
from shardmill.worker.transport.deletions import DeferredDeletes
from shardmill.worker.transport.engine import EngineFileUrls, translate_errors
from shardmill.worker.transport.lanes import Lane, Lanes

log = logging.getLogger("shardmill.worker")

_LAST_DELETES_SECONDS = 2.0
_ANY_GROUP = "default"  # read to measure the clock; it need not exist


class _PendingTotals:
    """Totals of this worker that are not written yet; heartbeats write them at no extra cost."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tally = Tally()

    def add(self, later: Tally) -> None:
        with self._lock:
            self._tally.add(later)

    @contextmanager
    def writing(self) -> Iterator[Tally]:
        """Take all totals for a write; if it fails, they are kept for the next one."""
        with self._lock:
            tally, self._tally = self._tally, Tally()
        try:
            yield tally
        except BaseException:
            with self._lock:
                tally.add(self._tally)
                self._tally = tally
            raise


class DirectTransport:
    largest_batch = BATCH

    def __init__(self, settings: Settings, clock: MeasuredClock | None = None) -> None:
        self._queues = DeferredDeletes(clients.sqs(), settings.dead_queue)
        self._mill: Mill = replace(Mill.connect(settings), queues=self._queues)
        self._clock = clock or MeasuredClock()
        self._dynamodb = clients.dynamodb()
        self._clock.watch(self._dynamodb)
        self._lanes: Lanes[Message] = Lanes(self._queues)
        self._closed = False
        self._row: WorkerRow | None = None
        self._settled_at = 0.0
        self._totals = _PendingTotals()
        self.logs: LogStore = BucketLogs(settings.bucket)
        self.files: FileUrls = EngineFileUrls(self._mill, lambda: self._me.id)

    def register(self, registration: Registration) -> Worker:
        with translate_errors():
            self._row = registry.register(self._mill, registration, self._now())
            return worker_view(self._mill, self._row, self._now())

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self._me
        with translate_errors(), self._totals.writing() as tally:
            beat = registry.heartbeat(
                self._mill, me.id, me.session, held, offline=offline, now=self._now(), tally=tally
            )
            self._row = beat.worker
            return heartbeat_answer(self._mill, beat, self._now())

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self._active()
        with translate_errors():
            self._lanes.serve(_lanes_of(self._groups_of(me)))
            leases = self._receive(most, wait_seconds)
        if leases:
            self._settled_at = time.monotonic() + (GROUP_CACHE_MS + MIXED_GROUP_CACHE_MS) / 1000
        self._totals.add(Tally(checkout=len(leases)))
        return leases

    def _receive(self, most: int, wait_seconds: int) -> list[Lease]:
        """Receive messages until one of them leads to a lease or the time is over.

        Some messages are void, or belong to tasks that this worker cannot run. Valid messages can follow many
        void ones, so they are then received ten at a time.
        """
        deadline = time.monotonic() + wait_seconds
        void = False
        while True:
            left = max(0, ceil(deadline - time.monotonic()))
            unsettled = self._lanes_may_change()
            patience = min(left, MIXED_GROUP_CACHE_MS / 1000) if unsettled else None
            messages = self._lanes.receive(BATCH if void else most, left, patience)
            try:
                forget_outdated(
                    self._mill, self._groups_of(self._active()), (message.queue for message in messages)
                )
                if self._lanes.serve(_lanes_of(self._groups_of(self._active()))):
                    self._lanes.release(messages)  # a higher lane may have been added while this one waited
                    continue
                if void and messages:
                    valid = delete_void(self._mill, messages, self._now())
                    self._lanes.release(valid[most:])
                    void, messages = len(valid) < len(messages), valid[:most]
                leases = self._lease_messages(messages, most) if messages else []
            except Exception:
                self._lanes.release(messages)
                raise
            if leases or not left or not (messages or void or unsettled):
                return leases
            void = void or bool(messages)

    def _lanes_may_change(self) -> bool:
        """Whether lanes may be added soon, or may have been added with the latest tasks."""
        mixed = any(group.lane_table.mixed for group in self._groups_of(self._active()))
        return mixed or time.monotonic() < self._settled_at

    def _lease_messages(self, messages: Sequence[Message], most: int) -> list[Lease]:
        """Lease the tasks of messages, or of those behind them if others must run all these tasks."""
        session = WorkerSession.of(self._active())
        bounced: list[Message] = []
        leases: list[Lease] = []
        try:
            leases = lease(self._mill, session, messages, self._now(), bounced=bounced)
            if bounced and not leases:
                hide = {lane.url: lane.hide for lane in _lanes_of(self._groups_of(self._active()))}
                leases = lease_behind(self._mill, session, bounced, most=most, hide=hide, clock=self._now)
        finally:
            if leases:
                self._lanes.release(bounced)
            else:
                self._lanes.give_way(bounced)
        return leases

    def _active(self) -> WorkerRow:
        """The row of this worker. Raises Refused if it is suspended or drained."""
        me = self._me
        if not me.takes_tasks:
            reason = me.notes or me.tired or "it is leaving"
            raise Refused(f"worker {me.name!r} takes no tasks: {reason}", WORKER_SUSPENDED)
        return me

    def report(self, results: Sequence[Result]) -> list[Reported]:
        tally = Tally()
        with translate_errors():
            reported = report(self._mill, self._me.id, results, self._now(), tally=tally)
        self._totals.add(tally)
        if tally.skip:
            self._write_totals()
        if self._closed:
            self._queues.finish(_LAST_DELETES_SECONDS)
        return reported

    def _write_totals(self) -> None:
        """Write a failure at once, as the task may be delivered again before the next heartbeat."""
        try:
            with translate_errors(), self._totals.writing() as tally:
                row = record_totals(self._mill, self._me.id, tally, self._now())
        except TransportError as error:
            log.warning(
                "failed to write the totals of this worker; the next heartbeat writes them",
                extra={"action": "totals-failed", "error": str(error)},
            )
        else:
            if row and row.session == self._me.session:
                self._row = row

    def hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        with translate_errors():
            tasks = [handed_back(task, reason) for task in leases]
            hand_back(self._mill, self._me.id, tasks, self._now())

    def close(self) -> None:
        self._lanes.close()
        self._clock.unwatch(self._dynamodb)
        self._closed = True
        self._queues.finish(_LAST_DELETES_SECONDS)

    def join(self, timeout: float) -> None:
        """After `close`, wait for the receive calls that are still pending."""
        self._lanes.join(timeout)

    def _now(self) -> int:
        return self._clock.now_ms(measure=lambda: self._mill.groups.get(_ANY_GROUP))

    @property
    def _me(self) -> WorkerRow:
        """The row of this worker as it was last read."""
        if not self._row:
            raise Refused("this worker is not registered")
        return self._row

    def _groups_of(self, me: WorkerRow) -> list[GroupRow]:
        rows = group_rows(self._mill, me.groups, self._now())
        if not rows:
            raise Refused(f"none of the worker groups {', '.join(me.groups)} exists")
        groups = [row for row in rows.values() if not row.suspended]
        if not groups:
            raise Refused(f"worker {me.name!r} takes no tasks: {suspension_reasons(rows)}", WORKER_SUSPENDED)
        return groups


def _lanes_of(groups: Iterable[GroupRow]) -> list[Lane]:
    return [
        Lane(group.queues[queue], -priority, group.lease_seconds)
        for group in groups
        for priority, queue in group.lane_table.order()
    ]
