"""The tasks that a worker holds: waiting for a slot, running, or with a result to report."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event, Lock

from shardmill.model.worker import MAX_BATCH, HeldTask, Lease, Result
from shardmill.worker.lease_size import LeaseSize
from shardmill.worker.task.channel import LiveStatus

MAX_SLOT_WAIT_SECONDS = 1.0
"""A task that waits longer for a slot is handed back, so that another worker can run it."""

GATHER_SECONDS = 0.02
_FULL_LEASE_SECONDS = 0.01
_MAX_UNREPORTED = 10 * MAX_BATCH

Key = tuple[str, int, int]


@dataclass(slots=True, eq=False)
class InflightTask:
    """A leased task. `stop` ends it; if it is `abandoned` as well, its result is not reported."""

    lease: Lease
    stop: Event = field(default_factory=Event)
    accepted: float = field(default_factory=time.monotonic)
    started: float | None = None
    abandoned: bool = False
    live: LiveStatus = field(default_factory=LiveStatus)

    @property
    def key(self) -> Key:
        return self.lease.task_id, self.lease.attempt, self.lease.run

    @property
    def held(self) -> HeldTask:
        """The task as a heartbeat names it."""
        names = self.lease.model_dump(include={"task_id", "attempt", "run"}, by_alias=False)
        return HeldTask(**names, waiting=self.started is None or None, progress=self.live.progress)


class InflightTasks:
    """Shared by the worker's threads: one leases, `slots` run tasks, one reports, one sends heartbeats.

    `on_change` is called, with the lock held, when the worker becomes busy or idle.
    """

    def __init__(
        self, slots: int, max_tasks: int | None = None, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._slots = slots
        self.size = LeaseSize(slots, max_tasks)
        self._on_change = on_change
        self._lock = Lock()
        self._arrived = Condition(self._lock)
        self._changed = Condition(self._lock)
        self._finished = Condition(self._lock)
        self._held: dict[Key, InflightTask] = {}
        self._waiting: deque[InflightTask] = deque()
        self._running: set[InflightTask] = set()
        self._results: deque[tuple[InflightTask, Result]] = deque()
        self._open = True
        self._suspended = False
        self._draining = False
        self._over = False
        self._busy_seconds = 0.0
        self._outcomes: Counter[str] = Counter()
        self._leased = 0
        self.unreported = 0

    # the leasing thread

    def wait_for_room(self) -> int:
        """Wait until tasks can be leased and return how many; 0 when no more are to be leased."""
        with self._lock:
            while not self._complete():
                if self._room() > 0 and self._short():
                    self._changed.wait_for(self._empty_or_full, _FULL_LEASE_SECONDS)
                room = self._room()
                if room > 0:
                    return room
                self._changed.wait()
        return 0

    def _complete(self) -> bool:
        """Whether no more tasks will be leased; waiting tasks may still be handed back and replaced."""
        return not self._open or (self.size.remaining == 0 and not self._waiting)

    def _room(self) -> int:
        if self._complete() or self._paused or self.unreported >= _MAX_UNREPORTED:
            return 0
        return self.size.room(len(self._waiting) + len(self._running), short=self._short())

    def _empty_or_full(self) -> bool:
        return self._room() in (0, min(self.size.largest, self.size.limit(short=self._short())))

    def _short(self) -> bool:
        return self.size.tasks_are_short(task.started for task in self._running)

    def accept(self, leases: Iterable[Lease]) -> list[InflightTask]:
        """Add leased tasks; none if the worker was closed, suspended or drained in the meantime."""
        with self._lock:
            if not self._open or self._paused:
                return []
            accepted = [InflightTask(lease) for lease in leases]
            self._leased += len(accepted)
            if accepted and not self._held:
                self._on_change()
            self._held.update({task.key: task for task in accepted})
            self._waiting.extend(accepted)
            self.size.add_remaining(-len(accepted))
            self._arrived.notify(sum(task.lease.type != "noop" for task in accepted))
            return accepted

    def take_overdue(self) -> list[Lease]:
        """Remove and return the tasks that have waited too long for a slot."""
        with self._lock:
            oldest = time.monotonic() - MAX_SLOT_WAIT_SECONDS
            return self._take_waiting([task for task in self._waiting if task.accepted < oldest])

    def _take_waiting(self, tasks: Sequence[InflightTask]) -> list[Lease]:
        for task in tasks:
            self._waiting.remove(task)
        self._release(tasks)
        self.size.add_remaining(len(tasks))
        return [task.lease for task in tasks]

    def _release(self, tasks: Iterable[InflightTask]) -> None:
        for task in tasks:
            self._held.pop(task.key, None)
        if not self._held:
            self._on_change()
        self._changed.notify_all()

    def wait_until_idle(self) -> None:
        """Wait until every result is reported, or the worker is closed."""
        with self._lock:
            self._changed.wait_for(lambda: self._idle or not self._open)

    # the slots

    def next(self) -> InflightTask | None:
        """Start the next task in a slot; None when there will be no more."""
        with self._lock:
            while not self._waiting and self._open:
                self._arrived.wait()
            return self._start(self._waiting[0]) if self._waiting else None

    def start(self, task: InflightTask) -> bool:
        """Start a certain task; False if it no longer waits."""
        with self._lock:
            return task in self._waiting and self._start(task) is task

    def _start(self, task: InflightTask) -> InflightTask:
        self._waiting.remove(task)
        task.started = time.monotonic()
        self._running.add(task)
        return task

    def finish(self, task: InflightTask, result: Result | None) -> None:
        """Record the end of a task; one without a result is handed back and not reported."""
        with self._lock:
            self._running.discard(task)
            seconds = time.monotonic() - (task.started or 0.0)
            self.size.record(seconds)
            self._busy_seconds += seconds
            if result:
                self._outcomes[result.outcome] += 1
                self._results.append((task, result))
                self.unreported += 1
                self._changed.notify_all()
            else:
                self._release([task])
            self._finished.notify_all()

    # the reporting thread

    def take_results(self) -> list[tuple[InflightTask, Result]]:
        """Wait for a batch of results, a moment longer while more are expected; empty at the end."""
        with self._lock:
            while not self._results and not self._over:
                self._finished.wait()
            deadline, most = time.monotonic() + GATHER_SECONDS, self.size.largest
            while len(self._results) < most and (self._running or self._waiting):
                left = deadline - time.monotonic()
                if left <= 0 or self._over:
                    break
                self._finished.wait(left)
            return [self._results.popleft() for _ in range(min(most, len(self._results)))]

    def reported(self, results: Sequence[tuple[InflightTask, Result]]) -> None:
        with self._lock:
            self.unreported -= len(results)
            self._release(task for task, _ in results)

    # the heartbeat

    def held(self) -> list[HeldTask]:
        with self._lock:
            tasks = list(self._held.values())
        return [task.held for task in tasks]

    def drop(self, sent: Iterable[HeldTask], dropped: Iterable[str]) -> list[InflightTask]:
        """Stop the dropped tasks, but only the attempts that the heartbeat named."""
        ids = set(dropped)
        keys = {(task.task_id, task.attempt, task.run) for task in sent if task.task_id in ids}
        with self._lock:
            found = [task for key, task in self._held.items() if key in keys and not task.stop.is_set()]
        for task in found:
            task.stop.set()
        return found

    @property
    def holds_tasks(self) -> bool:
        return bool(self._held)

    def follow(self, followed: Iterable[str]) -> None:
        """Upload the logs of these tasks while they run, and of no others."""
        ids = set(followed)
        with self._lock:
            for task in self._held.values():
                task.live.followed = task.lease.task_id in ids

    def suspend(self, suspended: bool) -> bool:
        """Lease nothing while suspended; return whether this is a change."""
        with self._lock:
            changed, self._suspended = self._suspended != suspended, suspended
            self._changed.notify_all()
            return changed

    def drain(self, draining: bool) -> bool:
        """Lease no more tasks and end after the held ones; return whether this is a change."""
        with self._lock:
            changed, self._draining = self._draining != draining, draining
            self._changed.notify_all()
            return changed

    @property
    def drained(self) -> bool:
        with self._lock:
            return self._draining and self._idle

    @property
    def _paused(self) -> bool:
        return self._suspended or self._draining

    # observers

    def running(self) -> list[InflightTask]:
        """The running tasks, oldest first."""
        with self._lock:
            return sorted(self._running, key=lambda task: task.started or 0.0)

    def figures(self) -> dict[str, float | dict[str, float]]:
        with self._lock:
            now = time.monotonic()
            running = sum(now - task.started for task in self._running if task.started)
            return {
                "slots": self._slots,
                "tasks_held": len(self._held),
                "tasks_running": len(self._running),
                "tasks_leased_total": self._leased,
                "tasks_ended_total": dict(self._outcomes),
                "busy_seconds_total": self._busy_seconds + running,
                "suspended": float(self._suspended),
            }

    # shutdown

    @property
    def idle(self) -> bool:
        with self._lock:
            return self._idle

    @property
    def _idle(self) -> bool:
        return not (self._waiting or self._running or self.unreported)

    @property
    def occupied(self) -> int:
        """The number of tasks that wait for a slot or have one."""
        with self._lock:
            return len(self._waiting) + len(self._running)

    def close(self) -> list[Lease]:
        """Lease no more tasks; remove and return the tasks that were not started."""
        with self._lock:
            self._open = False
            for condition in (self._arrived, self._changed, self._finished):
                condition.notify_all()
            return self._take_waiting(list(self._waiting))

    def abandon(self) -> None:
        """Stop the running tasks; interrupted tasks are not reported."""
        with self._lock:
            running = list(self._running)
            for task in running:
                task.abandoned = True
        for task in running:
            task.stop.set()

    def wait_for_tasks(self, seconds: float) -> bool:
        """Whether all running tasks ended within that time."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def wait_for_reports(self, seconds: float) -> bool:
        with self._lock:
            return self._changed.wait_for(lambda: not self.unreported, seconds)

    def end_reporting(self) -> None:
        """Make `take_results` return."""
        with self._lock:
            self._over = True
            self._finished.notify_all()
