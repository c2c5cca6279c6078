"""An in-memory transport for workers: leases tasks, accepts results, fails on request."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from threading import Condition

from shardmill.model.worker import (
    HeartbeatAnswer,
    HeldTask,
    Lease,
    Registration,
    Reported,
    Result,
    Worker,
    WorkerStatus,
)
from shardmill.worker.logs import Part, Stream
from shardmill.worker.transport.base import WORKER_SUSPENDED, Refused


class NoLogs:
    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        pass


class FakeTransport:
    largest_batch = 10

    def __init__(self, leases: Sequence[Lease] = (), *, heartbeat_seconds: int = 1) -> None:
        self.changed = Condition()
        self.logs = NoLogs()
        self.files = None
        self.queue: list[Lease] = list(leases)
        self.leased: list[Lease] = []
        self.lease_sizes: list[int] = []
        self.reports: list[list[Result]] = []
        self.handed_back: list[Lease] = []
        self.beats: list[tuple[list[HeldTask], bool]] = []
        self.drop: list[str] = []
        self.followed: list[str] = []
        self.suspended = False
        self.drain = False
        self.refuses = True
        self.registration: Registration | None = None
        self.faults: dict[str, list[Exception]] = {}
        self.on_heartbeat: Callable[[], None] = lambda: None
        self._heartbeat_seconds = heartbeat_seconds
        self._closed = False

    def fail(self, call: str, *errors: Exception) -> None:
        """Make the next calls of this method raise these errors."""
        self.faults.setdefault(call, []).extend(errors)

    def add(self, *leases: Lease) -> None:
        with self.changed:
            self.queue += leases
            self.changed.notify_all()

    def await_that(self, predicate: Callable[[], object], seconds: float = 10) -> None:
        with self.changed:
            assert self.changed.wait_for(predicate, seconds)

    @property
    def results(self) -> list[Result]:
        return [result for batch in self.reports for result in batch]

    def register(self, registration: Registration) -> Worker:
        with self.changed:
            self._raise("register")
            self.registration = registration
        now = datetime.now(UTC)
        return Worker(
            id="w",
            name=registration.name,
            groups=registration.groups,
            session=1,
            activity="suspended" if self.suspended else "idle",
            heartbeat_seconds=self._heartbeat_seconds,
            create_time=now,
            update_time=now,
        )

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        with self.changed:
            self._raise("heartbeat")
            self.beats.append((list(held), offline))
            drop = [name for name in self.drop if name in {task.task_id for task in held}]
            self.changed.notify_all()
            return HeartbeatAnswer(
                drop=drop,
                followed=self.followed,
                suspended=self.suspended,
                drain=self.drain,
                status=WorkerStatus.ONLINE,
                heartbeat_seconds=self._heartbeat_seconds,
            )

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        with self.changed:
            self._raise("lease")
            if self._refused:
                raise Refused("takes no tasks", WORKER_SUSPENDED)
            self.lease_sizes.append(most)
            self.changed.wait_for(
                lambda: self.queue or self._closed or self.faults.get("lease"), wait_seconds
            )
            self._raise("lease")
            most = 0 if self._refused else most
            taken, self.queue = self.queue[:most], self.queue[most:]
            self.leased += taken
            self.changed.notify_all()
        return taken

    def report(self, results: Sequence[Result]) -> list[Reported]:
        with self.changed:
            self._raise("report")
            self.reports.append(list(results))
            self.changed.notify_all()
        return [Reported(task_id=one.task_id, attempt=one.attempt, status="ok") for one in results]

    def hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        with self.changed:
            self._raise("hand_back")
            self.handed_back += leases
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    @property
    def _refused(self) -> bool:
        return self.refuses and (self.suspended or self.drain)

    def _raise(self, call: str) -> None:
        if self.faults.get(call):
            raise self.faults[call].pop(0)
