"""A worker straight to AWS, with a role: it receives the messages itself and is trusted with the table."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from threading import Lock

from shardmill.aws.clock import now_ms
from shardmill.aws.queues import BATCH
from shardmill.aws.settings import Settings
from shardmill.engine.groups.matching import WorkerSession, group_rows, suspension_reasons
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.lease import drop_void, lease
from shardmill.engine.tasks.report import report
from shardmill.engine.views.workers import heartbeat_answer, worker_view
from shardmill.engine.workers import registry
from shardmill.model.worker import HeartbeatAnswer, HeldTask, Lease, Registration, Reported, Result, Worker
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally
from shardmill.worker.logs import BucketLogs, LogStore
from shardmill.worker.transport.base import RESTING, FileDesk, Refused, TransportError, handed_back
from shardmill.worker.transport.engine import EngineDesk, in_transport_words
from shardmill.worker.transport.lanes import Lane, Lanes

log = logging.getLogger("shardmill.worker")


class _Ledger:
    """What this worker did and has not written down yet; heartbeats take it along at no cost."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tally = Tally()

    def add(self, later: Tally) -> None:
        with self._lock:
            self._tally.add(later)

    @contextmanager
    def writing(self) -> Iterator[Tally]:
        """All there is to write down; it is kept for the next time if that does not work."""
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
    def __init__(self, settings: Settings) -> None:
        self._mill = Mill.connect(settings)
        self._lanes = Lanes(self._mill.queues)
        self._row: WorkerRow | None = None
        self._ledger = _Ledger()
        self.logs: LogStore = BucketLogs(settings.bucket)
        self.files: FileDesk = EngineDesk(self._mill, lambda: self._me.id)

    def register(self, registration: Registration) -> Worker:
        with in_transport_words():
            self._row = registry.register(self._mill, registration, now_ms())
            return worker_view(self._mill, self._row, now_ms())

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self._me
        with in_transport_words(), self._ledger.writing() as tally:
            beat = registry.heartbeat(
                self._mill, me.id, me.session, held, offline=offline, now=now_ms(), tally=tally
            )
            self._row = beat.worker
            return heartbeat_answer(self._mill, beat, now_ms())

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self._awake()
        with in_transport_words():
            self._lanes.serve(self._lanes_of(me))
            leases = self._take(most, wait_seconds)
        self._ledger.add(Tally(checkout=len(leases)))
        return leases

    def _take(self, most: int, wait_seconds: int) -> list[Lease]:
        """Messages may be void, or of tasks for others: that is no reason to come back with nothing.

        There may be many void ones, with others behind them: they are taken by the dozen until one is good.
        """
        deadline = time.monotonic() + wait_seconds
        void = False
        while True:
            left = max(0, ceil(deadline - time.monotonic()))
            messages = self._lanes.take(BATCH if void else most, left)
            try:
                if void and messages:
                    meant = drop_void(self._mill, messages, now_ms())
                    self._lanes.show_again(meant[most:])
                    void, messages = len(meant) < len(messages), meant[:most]
                leases = (
                    lease(self._mill, WorkerSession.of(self._awake()), messages, now_ms()) if messages else []
                )
            except Exception:
                self._lanes.show_again(messages)
                raise
            if leases or not left or not (messages or void):
                return leases
            void = True

    def _awake(self) -> WorkerRow:
        """Raises Refused when it is known to take no tasks now."""
        me = self._me
        if not me.takes_tasks:
            why = me.notes or me.tired or "it is leaving"
            raise Refused(f"worker {me.name!r} takes no tasks: {why}", RESTING)
        return me

    def report(self, results: Sequence[Result]) -> list[Reported]:
        tally = Tally()
        with in_transport_words():
            reported = report(self._mill, self._me.id, results, now_ms(), tally=tally)
        self._ledger.add(tally)
        if tally.skip:
            self._write_down()
        return reported

    def _write_down(self) -> None:
        """A failure is noted at once: the task may come back before the next heartbeat."""
        try:
            with in_transport_words(), self._ledger.writing() as tally:
                row = record_totals(self._mill, self._me.id, tally, now_ms())
        except TransportError as error:
            log.warning("not-noted error=%s", error)
        else:
            if row and row.session == self._me.session:
                self._row = row

    def hand_back(self, leases: Sequence[Lease]) -> None:
        with in_transport_words():
            hand_back(self._mill, self._me.id, [handed_back(task) for task in leases], now_ms())

    def close(self) -> None:
        self._lanes.close()

    def join(self, timeout: float) -> None:
        """After closing: wait for the receives that are still in flight."""
        self._lanes.join(timeout)

    @property
    def _me(self) -> WorkerRow:
        """Its row as it was last seen."""
        if not self._row:
            raise Refused("this worker did not register yet")
        return self._row

    def _lanes_of(self, me: WorkerRow) -> list[Lane]:
        rows = group_rows(self._mill, me.groups, now_ms())
        if not rows:
            raise Refused(f"none of the worker groups {', '.join(me.groups)} exists any more")
        groups = [row for row in rows.values() if not row.suspended]
        if not groups:
            raise Refused(f"worker {me.name!r} takes no tasks: {suspension_reasons(rows)}", RESTING)
        return [
            Lane(url, level, group.lease_seconds)
            for group in groups
            for level, url in enumerate(group.queues)
        ]
