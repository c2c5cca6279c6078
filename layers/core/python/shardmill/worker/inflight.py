"""What a worker has on its desk: tasks that wait for a slot, that run, and results to be reported."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event, Lock

from shardmill.model.worker import MAX_BATCH, HeldTask, Lease, Result
from shardmill.worker.task.channel import Live

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
    live: Live = field(default_factory=Live)

    @property
    def key(self) -> Key:
        return self.lease.task_id, self.lease.attempt, self.lease.run


class Desk:
    """Shared by the worker's threads: one leases, `slots` run, one reports, one beats.

    `on_turn` is called, quickly, when it becomes empty or is not empty any more.
    """

    def __init__(
        self, slots: int, most_tasks: int | None = None, on_turn: Callable[[], None] = lambda: None
    ) -> None:
        self._slots = slots
        self._left = most_tasks
        self._on_turn = on_turn
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
        self._paused = False
        self._draining = False
        self._over = False
        self._busy_seconds = 0.0
        self._outcomes: Counter[str] = Counter()
        self._leased = 0
        self.unsent = 0

    # the leasing thread

    def await_room(self) -> int:
        """How many tasks to ask for, once there is room for any; 0 when no more are to be taken."""
        with self._lock:
            while not self._enough():
                if self._room() > 0 and self._quick():
                    self._ended.wait_for(self._none_or_all, _FULL_LEASE_SECONDS)
                room = self._room()
                if room > 0:
                    return room
                self._ended.wait()
        return 0

    def _enough(self) -> bool:
        """Whether it will take no more; what waits for a slot may yet be passed on, and is not counted."""
        return not self._open or (self._left == 0 and not self._waiting)

    def _limit(self) -> int:
        return max(self._slots, MAX_BATCH) if self._quick() else self._slots

    def _room(self) -> int:
        if self._enough() or self._resting or self.unsent >= _MOST_UNREPORTED:
            return 0
        most = MAX_BATCH if self._left is None else min(MAX_BATCH, self._left)
        return min(most, self._limit() - len(self._waiting) - len(self._running))

    def _none_or_all(self) -> bool:
        return self._room() in (0, min(MAX_BATCH, self._limit()))

    def _quick(self) -> bool:
        if self._average is None or self._average >= QUICK_SECONDS:
            return False
        late = time.monotonic() - QUICK_SECONDS
        return all(held.began is None or held.began > late for held in self._running)

    def accept(self, leases: Iterable[Lease]) -> list[Held]:
        """Put leased tasks on the desk; none when it takes no more since they were asked for."""
        with self._lock:
            if not self._open or self._resting:
                return []
            accepted = [Held(lease) for lease in leases]
            self._leased += len(accepted)
            if accepted and not self._held:
                self._on_turn()
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
        self._let_go(unbegun)
        if self._left is not None:
            self._left += len(unbegun)
        return [held.lease for held in unbegun]

    def _let_go(self, gone: Iterable[Held]) -> None:
        for held in gone:
            self._held.pop(held.key, None)
        if not self._held:
            self._on_turn()
        self._ended.notify_all()

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
            self._busy_seconds += took
            if result:
                self._outcomes[result.outcome] += 1
                self._results.append((held, result))
                self.unsent += 1
                self._ended.notify_all()
            else:
                self._let_go([held])
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
            self._let_go(held for held, _ in sent)

    # the heartbeat

    def held(self) -> list[HeldTask]:
        with self._lock:
            held = list(self._held.values())
        return [
            HeldTask(
                task_id=one.lease.task_id,
                attempt=one.lease.attempt,
                run=one.lease.run,
                progress=one.live.progress,
            )
            for one in held
        ]

    def drop(self, sent: Iterable[HeldTask], dropped: Iterable[str]) -> list[Held]:
        """Stop the tasks that the answer to a heartbeat names: the attempts it was told of, no newer ones."""
        names = set(dropped)
        keys = {(task.task_id, task.attempt, task.run) for task in sent if task.task_id in names}
        with self._lock:
            found = [held for key, held in self._held.items() if key in keys and not held.stop.is_set()]
        for held in found:
            held.stop.set()
        return found

    @property
    def holding(self) -> bool:
        """Whether a heartbeat would name any task."""
        with self._lock:
            return bool(self._held)

    def follow(self, followed: Iterable[str]) -> None:
        """Somebody reads the logs of these tasks now, and of no others."""
        names = set(followed)
        with self._lock:
            for held in self._held.values():
                held.live.followed = held.lease.task_id in names

    def pause(self, paused: bool) -> bool:
        """Take nothing until that is lifted; whether this is a change."""
        with self._lock:
            changed, self._paused = self._paused != paused, paused
            self._ended.notify_all()
            return changed

    def drain(self, draining: bool) -> bool:
        """Take nothing, for good once what is held has ended; whether this is a change."""
        with self._lock:
            changed, self._draining = self._draining != draining, draining
            self._ended.notify_all()
            return changed

    @property
    def drained(self) -> bool:
        with self._lock:
            return self._draining and self._idle

    @property
    def _resting(self) -> bool:
        return self._paused or self._draining

    # onlookers

    def running(self) -> list[Held]:
        """What runs, the oldest first."""
        with self._lock:
            return sorted(self._running, key=lambda held: held.began or 0.0)

    def figures(self) -> dict[str, float | dict[str, float]]:
        with self._lock:
            now = time.monotonic()
            since = sum(now - held.began for held in self._running if held.began)
            return {
                "slots": self._slots,
                "tasks_held": len(self._held),
                "tasks_running": len(self._running),
                "tasks_leased_total": self._leased,
                "tasks_ended_total": dict(self._outcomes),
                "busy_seconds_total": self._busy_seconds + since,
                "suspended": float(self._paused),
            }

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
