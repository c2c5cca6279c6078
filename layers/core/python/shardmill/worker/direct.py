"""A worker straight to AWS, with a role: it receives the messages itself and is trusted with the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardmill.aws.clock import now_ms
from shardmill.aws.settings import Settings
from shardmill.engine import workers
from shardmill.engine.enqueue import group_rows
from shardmill.engine.hand_back import hand_back
from shardmill.engine.lease import lease
from shardmill.engine.mill import Mill
from shardmill.engine.report import report
from shardmill.engine.view_workers import worker_view
from shardmill.model.worker import HeartbeatAnswer, HeldTask, Lease, Registration, Reported, Result, Worker
from shardmill.worker.faults import in_transport_words
from shardmill.worker.lanes import Lane, Lanes
from shardmill.worker.logs import BucketLogs, LogStore
from shardmill.worker.transport import Refused, handed_back


class DirectTransport:
    def __init__(self, settings: Settings) -> None:
        self._mill = Mill.connect(settings)
        self._lanes = Lanes(self._mill.queues)
        self._worker: Worker | None = None
        self.logs: LogStore = BucketLogs(settings.bucket)

    def register(self, registration: Registration) -> Worker:
        with in_transport_words():
            row = workers.register(self._mill, registration, now_ms())
            self._worker = worker_view(self._mill, row, now_ms())
        return self._worker

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self._me
        with in_transport_words():
            beat = workers.heartbeat(self._mill, me.id, me.session, held, offline=offline, now=now_ms())
            view = worker_view(self._mill, beat.worker, now_ms())
        return HeartbeatAnswer(drop=beat.drop, status=view.status, heartbeat_seconds=view.heartbeat_seconds)

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self._me
        with in_transport_words():
            lanes = list(self._lanes_of(me.groups))
            if not lanes:
                raise Refused(f"none of the worker groups {', '.join(me.groups)} exists any more")
            self._lanes.serve(lanes)
            messages = self._lanes.take(most, wait_seconds)
            try:
                return lease(self._mill, f"{me.id}.{me.session}", messages, now_ms()) if messages else []
            except Exception:
                self._lanes.show_again(messages)
                raise

    def report(self, results: Sequence[Result]) -> list[Reported]:
        with in_transport_words():
            return report(self._mill, self._me.id, results, now_ms())

    def hand_back(self, leases: Sequence[Lease]) -> None:
        with in_transport_words():
            hand_back(self._mill, self._me.id, [handed_back(task) for task in leases], now_ms())

    def close(self) -> None:
        self._lanes.close()

    def join(self, timeout: float) -> None:
        """After closing: wait for the receives that are still in flight."""
        self._lanes.join(timeout)

    @property
    def _me(self) -> Worker:
        if not self._worker:
            raise Refused("this worker did not register yet")
        return self._worker

    def _lanes_of(self, names: Sequence[str]) -> Iterator[Lane]:
        for group in group_rows(self._mill, names, now_ms()).values():
            for level, url in enumerate(group.queues):
                yield Lane(url, level, group.lease_seconds)
