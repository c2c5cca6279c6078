"""A reference model of leases, reports and retries.

It does not use the engine. Times are milliseconds; a worker is known by its name, a task by its id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LEASE = 60_000
GRACE = 15_000  # what a worker has to end a task whose time is over, and to say so
FAILURES_IN_A_ROW = 5


@dataclass(frozen=True)
class Limits:
    """The rules of a step; intervals and timeout in seconds."""

    failed_retries: int = 0
    failed_interval: int = 0
    failed_backoff: int = 1
    reject_retries: int = 0
    reject_interval: int = 0
    lost_retries: int = 0
    timeout: int | None = None


@dataclass
class Worker:
    apps: tuple[str, ...]
    seen: int
    session: int = 1
    suspended: bool = False
    tired: bool = False
    gone: bool = False
    completed: int = 0
    failed: int = 0
    failures_in_a_row: int = 0
    skip: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)

    def lives(self, now: int) -> bool:
        return self.seen + LEASE > now

    @property
    def takes_tasks(self) -> bool:
        return not (self.suspended or self.tired or self.gone)

    def runs(self, need: str) -> bool:
        return "*" in self.apps or need in self.apps

    def born_again(self, now: int) -> None:
        """Start a new process of this name: failures are reset, an operator's decisions are kept."""
        self.session += 1
        self.seen, self.claims = now, set()
        self.gone = self.tired = False
        self.failures_in_a_row = 0

    def resumed(self) -> None:
        self.suspended = self.tired = False
        self.failures_in_a_row = 0

    def succeeded(self, task: str) -> None:
        self.completed += 1
        self.failures_in_a_row = 0
        self.claims.discard(task)

    def failed_at(self, task: str) -> None:
        self.failed += 1
        self.failures_in_a_row += 1
        self.tired |= self.failures_in_a_row >= FAILURES_IN_A_ROW
        self.skip.add(task)
        self.claims.discard(task)

    def rejected(self, task: str) -> None:
        self.skip.add(task)
        self.claims.discard(task)


@dataclass
class Task:
    id: str
    need: str
    limits: Limits
    state: str = "READY"
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    rejections: int = 0
    holder: str = ""
    session: int = 0
    since: int = 0
    not_before: int = 0
    ends: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The end of each attempt, and the text of its report."""

    @property
    def ended(self) -> bool:
        return self.state in ("SUCCESS", "FAILED")

    @property
    def running(self) -> bool:
        return self.state == "RUNNING"

    def overdue(self, now: int) -> bool:
        timeout = self.limits.timeout
        return self.running and timeout is not None and self.since + timeout * 1000 + GRACE <= now

    def is_held(self, name: str, attempt: int) -> bool:
        return self.running and (self.holder, self.attempt) == (name, attempt)

    def leased(self, name: str, session: int, now: int) -> None:
        assert not self.ended
        self.state, self.attempt = "RUNNING", self.attempt + 1
        self.holder, self.session, self.since = name, session, now

    def over(self, how: str, words: str = "") -> None:
        assert self.running
        assert self.attempt not in self.ends, "an attempt ends once"
        self.ends[self.attempt] = (how, words)

    def again(self, now: int, seconds: int, allowed: bool) -> None:
        self.state = "READY" if allowed else "FAILED"
        self.not_before = now + seconds * 1000

    def fail(self, now: int) -> None:
        self.failures += 1
        seconds = self.limits.failed_interval * self.limits.failed_backoff ** (self.failures - 1)
        self.again(now, seconds, self.failures <= self.limits.failed_retries)


class Model:
    def __init__(self, tasks: Iterable[Task]) -> None:
        self.crew: dict[str, Worker] = {}
        self.tasks = {task.id: task for task in tasks}

    def suits(self, name: str, task: Task, skip: Iterable[str], now: int) -> bool:
        """Whether a worker can run a task, and none that did not fail at it should rather."""
        if not self.crew[name].runs(task.need):
            return False
        return task.id not in skip or not any(
            other.takes_tasks and other.lives(now) and other.runs(task.need) and task.id not in other.skip
            for other_name, other in self.crew.items()
            if other_name != name
        )

    def holder_lives(self, task: Task, now: int) -> bool:
        """A lease is live until it expires, or while heartbeats of its worker name the task."""
        if task.since + LEASE > now:
            return True
        holder = self.crew[task.holder]
        return holder.session == task.session and holder.lives(now) and task.id in holder.claims

    def delivered(self, name: str, session: int, task: Task, suits: bool, now: int) -> bool:
        """A worker received the message of a task; whether it leases it.

        One that should not run it passes it on, and need not look how it stands.
        """
        if not suits or task.ended or (task.state == "READY" and task.not_before > now):
            return False
        if task.running:
            if self.holder_lives(task, now) or self.end_if_lost(task, now):
                return False
            self._lose(task)
        task.leased(name, session, now)
        return True

    def end_if_lost(self, task: Task, now: int) -> bool:
        """A task can be lost a limited number of times."""
        dead = task.running and not self.holder_lives(task, now)
        if not dead or task.losses < task.limits.lost_retries:
            return False
        self._lose(task)
        task.state = "FAILED"
        return True

    def _lose(self, task: Task) -> None:
        task.over("lost")
        task.losses += 1
        self.crew[task.holder].claims.discard(task.id)

    def end_if_overdue(self, name: str, task: Task, attempt: int, now: int) -> bool:
        """An attempt that exceeds its time limit fails while its worker is alive."""
        if not task.is_held(name, attempt) or not task.overdue(now):
            return False
        task.over("timed-out")
        task.fail(now)
        self.crew[name].failed_at(task.id)
        return True

    def reported(
        self, name: str, task: Task, attempt: int, outcome: str, reason: str, words: str, now: int
    ) -> bool:
        """A worker reports an attempt; whether that counts, as it does for the current one of its holder."""
        if not task.is_held(name, attempt):
            return False
        worker = self.crew[name]
        if outcome == "success":
            task.over("success", words)
            task.state = "SUCCESS"
            worker.succeeded(task.id)
        elif outcome == "failed-permanent":
            task.over("failed", words)
            task.failures += 1
            task.state = "FAILED"
            worker.failed_at(task.id)
        elif reason == "discarded":
            task.over("discarded", words)
            task.again(now, 0, True)
            worker.claims.discard(task.id)
        elif outcome == "rejected":
            task.over("rejected", words)
            task.rejections += 1
            task.again(now, task.limits.reject_interval, task.rejections <= task.limits.reject_retries)
            worker.rejected(task.id)
        else:
            task.over("timed-out" if reason == "timed-out" else "failed", words)
            task.fail(now)
            worker.failed_at(task.id)
        return True

    def handed_back(self, name: str, task: Task, attempt: int, now: int) -> bool:
        """It counts as nothing, and the next attempt has the next number."""
        if not task.is_held(name, attempt):
            return False
        task.over("handed-back")
        task.again(now, 0, True)
        self.crew[name].claims.discard(task.id)
        return True
