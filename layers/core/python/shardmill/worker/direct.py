"""A worker straight to AWS, with a role: it receives the messages itself and is trusted with the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.clock import now_ms
from shardmill.aws.queues import SendRefused
from shardmill.aws.settings import Settings
from shardmill.engine import workers
from shardmill.engine.enqueue import group_rows
from shardmill.engine.errors import MillError, StaleSession, WorkerNotFound
from shardmill.engine.lease import lease
from shardmill.engine.mill import Mill
from shardmill.engine.report import report
from shardmill.engine.view_workers import worker_view
from shardmill.model.worker import HeartbeatAnswer, HeldTask, Lease, Registration, Reported, Result, Worker
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Throttled
from shardmill.worker.lanes import Lane, Lanes
from shardmill.worker.logs import BucketLogs, LogStore
from shardmill.worker.transport import Refused, Stale, Unreachable


class DirectTransport:
    """Each of the worker's threads has a Mill of its own: what a Mill remembers is not shared."""

    def __init__(self, settings: Settings) -> None:
        self._leasing = Mill.connect(settings)
        self._reporting = Mill.connect(settings)
        self._beating = Mill.connect(settings)
        self._lanes = Lanes(self._leasing.queues)
        self._worker: Worker | None = None
        self.logs: LogStore = BucketLogs(settings.bucket)

    def register(self, registration: Registration) -> Worker:
        with _spoken():
            row = workers.register(self._beating, registration, now_ms())
            self._worker = worker_view(self._beating, row, now_ms())
        return self._worker

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        me = self._me
        with _spoken():
            beat = workers.heartbeat(self._beating, me.id, me.session, held, offline=offline, now=now_ms())
            view = worker_view(self._beating, beat.worker, now_ms())
        return HeartbeatAnswer(drop=beat.drop, status=view.status, heartbeat_seconds=view.heartbeat_seconds)

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        me = self._me
        with _spoken():
            self._lanes.serve(self._lanes_of(me.groups))
            messages = self._lanes.take(most, wait_seconds)
            if not messages:
                return []
            return lease(self._leasing, f"{me.id}.{me.session}", messages, now_ms())

    def report(self, results: Sequence[Result]) -> list[Reported]:
        with _spoken():
            return report(self._reporting, self._me.id, results, now_ms())

    def hand_back(self, leases: Sequence[Lease]) -> None:
        """Their messages show again after the lease, when the row no longer names a living holder."""

    def close(self) -> None:
        self._lanes.close()

    @property
    def _me(self) -> Worker:
        if not self._worker:
            raise Refused("this worker did not register yet")
        return self._worker

    def _lanes_of(self, names: Sequence[str]) -> Iterator[Lane]:
        for group in group_rows(self._leasing, names, now_ms()).values():
            for level, url in enumerate(group.queues):
                yield Lane(url, level, group.lease_seconds)


@contextmanager
def _spoken() -> Iterator[None]:
    """The faults of the engine and of AWS in the words of a transport."""
    try:
        yield
    except (StaleSession, WorkerNotFound) as error:
        raise Stale(error.detail) from error
    except MillError as error:
        raise Refused(error.detail, error.code) from error
    except (BotoCoreError, ClientError, BlockChanged, SendRefused, Throttled) as error:
        raise Unreachable(str(error)) from error
