"""What a worker has on its desk: tasks that wait for a slot, that run, and results to be reported."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event, Lock

from shardmill.model.worker import MAX_BATCH, HeldTask, Lease, Result

QUICK_SECONDS = 0.2
"""Tasks that take longer on average are not leased before there is a slot for them."""

PATIENCE_SECONDS = 1.0
"""A task that waits longer for a slot is better off elsewhere."""

GATHER_SECONDS = 0.02
_FULL_LEASE_SECONDS = 0.01
_MOST_UNREPORTED = 10 * MAX_BATCH
_WEIGHT = 0.2

Key = tuple[str, int, int]


@dataclass(slots=True, eq=False)
class Held:
    """A leased task; `stop` ends it, `abandoned` says that its end is then nobody's business."""

    lease: Lease
    stop: Event = field(default_factory=Event)
    accepted: float = field(default_factory=time.monotonic)
    began: float | None = None
    abandoned: bool = False

    @property
    def key(self) -> Key:
        return self.lease.task_id, self.lease.attempt, self.lease.run


class Desk:
    """Shared by the worker's threads: one leases, `slots` run, one reports, one beats."""

    def __init__(self, slots: int, most_tasks: int | None = None) -> None:
        self._slots = slots
        self._left = most_tasks
        self._lock = Lock()
        self._work = Condition(self._lock)
        self._ended = Condition(self._lock)
        self._done = Condition(self._lock)
        self._held: dict[Key, Held] = {}
        self._waiting: deque[Held] = deque()
        self._running: set[Held] = set()
        self._results: deque[tuple[Held, Result]] = deque()
        self._average: float | None = None
        self._open = True
        self._over = False
        self.unsent = 0

    # the leasing thread

    def await_room(self) -> int:
        """How many tasks to ask for, once there is room for any; 0 when no more are to be taken."""
        with self._lock:
            while self._open and self._left != 0:
                if self._room() > 0 and self._quick():
                    self._ended.wait_for(self._none_or_all, _FULL_LEASE_SECONDS)
                room = self._room()
                if room > 0:
                    return room if self._left is None else min(room, self._left)
                self._ended.wait()
        return 0

    def _limit(self) -> int:
        return max(self._slots, MAX_BATCH) if self._quick() else self._slots

    def _room(self) -> int:
        if not self._open or self.unsent >= _MOST_UNREPORTED:
            return 0
        return min(MAX_BATCH, self._limit() - len(self._waiting) - len(self._running))

    def _none_or_all(self) -> bool:
        return self._room() in (0, min(MAX_BATCH, self._limit()))

    def _quick(self) -> bool:
        if self._average is None or self._average >= QUICK_SECONDS:
            return False
        late = time.monotonic() - QUICK_SECONDS
        return all(held.began is None or held.began > late for held in self._running)

    def accept(self, leases: Iterable[Lease]) -> list[Held]:
        """Put leased tasks on the desk; none when it closed meanwhile."""
        with self._lock:
            if not self._open:
                return []
            accepted = [Held(lease) for lease in leases]
            self._held.update({held.key: held for held in accepted})
            self._waiting.extend(accepted)
            if self._left is not None:
                self._left -= len(accepted)
            self._work.notify(sum(held.lease.type != "noop" for held in accepted))
            return accepted

    def overdue(self) -> list[Lease]:
        """Take off the desk what has waited too long: the tasks before it are not quick after all."""
        with self._lock:
            late = time.monotonic() - PATIENCE_SECONDS
            return self._take_off([held for held in self._waiting if held.accepted < late])

    def _take_off(self, unbegun: Sequence[Held]) -> list[Lease]:
        for held in unbegun:
            self._waiting.remove(held)
            self._held.pop(held.key, None)
        return [held.lease for held in unbegun]

    def await_idle(self) -> None:
        """Until everything is reported, or the desk is closed."""
        with self._lock:
            self._ended.wait_for(lambda: self._idle or not self._open)

    # the slots

    def next(self) -> Held | None:
        """The next task to run, for a slot; None when there will be no more."""
        with self._lock:
            while not self._waiting and self._open:
                self._work.wait()
            return self._begin(self._waiting[0]) if self._waiting else None

    def begin(self, held: Held) -> bool:
        """Take a certain task; whether it was still there."""
        with self._lock:
            return held in self._waiting and self._begin(held) is held

    def _begin(self, held: Held) -> Held:
        self._waiting.remove(held)
        held.began = time.monotonic()
        self._running.add(held)
        return held

    def end(self, held: Held, result: Result | None) -> None:
        """A task is over; without a result it is handed back and not reported."""
        with self._lock:
            self._running.discard(held)
            took = time.monotonic() - (held.began or 0.0)
            before = took if self._average is None else self._average
            self._average = before + _WEIGHT * (took - before)
            if result:
                self._results.append((held, result))
                self.unsent += 1
            else:
                self._held.pop(held.key, None)
            self._ended.notify_all()
            self._done.notify_all()

    # the reporting thread

    def take_results(self) -> list[tuple[Held, Result]]:
        """Up to ten results, gathered for a moment while more are to be expected; none when it is over."""
        with self._lock:
            while not self._results and not self._over:
                self._done.wait()
            deadline = time.monotonic() + GATHER_SECONDS
            while len(self._results) < MAX_BATCH and (self._running or self._waiting):
                left = deadline - time.monotonic()
                if left <= 0 or self._over:
                    break
                self._done.wait(left)
            return [self._results.popleft() for _ in range(min(MAX_BATCH, len(self._results)))]

    def reported(self, sent: Sequence[tuple[Held, Result]]) -> None:
        with self._lock:
            self.unsent -= len(sent)
            for held, _ in sent:
                self._held.pop(held.key, None)
            self._ended.notify_all()

    # the heartbeat

    def held(self) -> list[HeldTask]:
        with self._lock:
            return [HeldTask(task_id=task, attempt=attempt, run=run) for task, attempt, run in self._held]

    def drop(self, sent: Iterable[HeldTask], dropped: Iterable[str]) -> list[Held]:
        """Stop the tasks that the answer to a heartbeat names: the attempts it was told of, no newer ones."""
        names = set(dropped)
        keys = {(task.task_id, task.attempt, task.run) for task in sent if task.task_id in names}
        with self._lock:
            found = [held for key, held in self._held.items() if key in keys and not held.stop.is_set()]
        for held in found:
            held.stop.set()
        return found

    # the end

    @property
    def idle(self) -> bool:
        with self._lock:
            return self._idle

    @property
    def _idle(self) -> bool:
        return not (self._waiting or self._running or self.unsent)

    @property
    def busy(self) -> int:
        """How many tasks want a slot or have one."""
        with self._lock:
            return len(self._waiting) + len(self._running)

    def close(self) -> list[Lease]:
        """Take no more; the tasks that were not begun."""
        with self._lock:
            self._open = False
            for condition in (self._work, self._ended, self._done):
                condition.notify_all()
            return self._take_off(list(self._waiting))

    def abandon(self) -> list[Held]:
        """Stop what runs; what does not come to its own end is not reported."""
        with self._lock:
            running = list(self._running)
            for held in running:
                held.abandoned = True
        for held in running:
            held.stop.set()
        return running

    def await_ends(self, seconds: float) -> bool:
        """Whether nothing runs any more, within that time."""
        with self._lock:
            return self._ended.wait_for(lambda: not self._running, seconds)

    def await_reports(self, seconds: float) -> bool:
        with self._lock:
            return self._ended.wait_for(lambda: not self.unsent, seconds)

    def finish(self) -> None:
        """Let the reporting thread go."""
        with self._lock:
            self._over = True
            self._done.notify_all()
