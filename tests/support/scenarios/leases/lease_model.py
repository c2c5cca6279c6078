"""A reference model of leases, reports and retries.

It does not use the engine. Times are milliseconds; a worker is known by its name, a task by its id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LEASE = 60_000
GRACE = 15_000  # for a worker to stop a task that exceeded its time limit, and to report it
CONSECUTIVE_FAILURES = 5


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
    suspended_after_failures: bool = False
    offline: bool = False
    completed: int = 0
    failed: int = 0
    consecutive_failures: int = 0
    may_be_suspended: bool = False
    skip: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)

    def is_live(self, now: int) -> bool:
        return self.seen + LEASE > now

    @property
    def takes_tasks(self) -> bool:
        return not (self.suspended or self.suspended_after_failures or self.offline)

    def can_run(self, need: str) -> bool:
        return "*" in self.apps or need in self.apps

    def restarted(self, now: int) -> None:
        """Start a new process with this name: failures are reset, a suspension by an operator stays."""
        self.session += 1
        self.seen, self.claims = now, set()
        self.offline = self.suspended_after_failures = False
        self.consecutive_failures, self.may_be_suspended = 0, False

    def resumed(self) -> None:
        self.suspended = self.suspended_after_failures = False
        self.consecutive_failures, self.may_be_suspended = 0, False

    def succeeded(self, task: str) -> None:
        self.completed += 1
        self.consecutive_failures = 0
        self.claims.discard(task)

    def failed_at(self, task: str) -> None:
        self.failed += 1
        self.consecutive_failures += 1
        self.may_be_suspended |= self.consecutive_failures >= CONSECUTIVE_FAILURES
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

    def end_attempt(self, how: str, text: str = "") -> None:
        assert self.running
        assert self.attempt not in self.ends, "the attempt has already ended"
        self.ends[self.attempt] = (how, text)

    def retry(self, now: int, seconds: int, allowed: bool) -> None:
        self.state = "READY" if allowed else "FAILED"
        self.not_before = now + seconds * 1000

    def fail(self, now: int) -> None:
        self.failures += 1
        seconds = self.limits.failed_interval * self.limits.failed_backoff ** (self.failures - 1)
        self.retry(now, seconds, self.failures <= self.limits.failed_retries)


class Model:
    def __init__(self, tasks: Iterable[Task]) -> None:
        self.workers: dict[str, Worker] = {}
        self.tasks = {task.id: task for task in tasks}

    def suits(self, name: str, task: Task, skip: Iterable[str], now: int) -> bool:
        """Whether a worker can run a task; one that failed it only if no other can."""
        if not self.workers[name].can_run(task.need):
            return False
        return task.id not in skip or not any(
            other.takes_tasks
            and other.is_live(now)
            and other.can_run(task.need)
            and task.id not in other.skip
            for other_name, other in self.workers.items()
            if other_name != name
        )

    def completed_elsewhere(self, name: str) -> bool:
        """Whether others completed tasks of steps that failed on this worker, or five steps failed on it."""
        steps = {task.rpartition("_")[0] for task in self.workers[name].skip}
        done = [task for task in self.tasks.values() if task.state == "SUCCESS" and task.holder != name]
        return len(steps) >= CONSECUTIVE_FAILURES or any(task.id.rpartition("_")[0] in steps for task in done)

    def is_lease_live(self, task: Task, now: int) -> bool:
        """A lease is live until it expires, or while heartbeats of its worker name the task."""
        if task.since + LEASE > now:
            return True
        holder = self.workers[task.holder]
        return holder.session == task.session and holder.is_live(now) and task.id in holder.claims

    def delivered(self, name: str, session: int, task: Task, suits: bool, now: int) -> bool:
        """Deliver the message of a task to a worker; return whether the worker leases it.

        A worker that should not run the task releases the message, whatever the state of the task.
        """
        if not suits or task.ended or (task.state == "READY" and task.not_before > now):
            return False
        if task.running:
            if self.is_lease_live(task, now) or self.end_if_lost(task, now):
                return False
            self._lose(task)
        task.leased(name, session, now)
        return True

    def end_if_lost(self, task: Task, now: int) -> bool:
        """Fail a task whose lease expired if it has no `lostRetries` left."""
        expired = task.running and not self.is_lease_live(task, now)
        if not expired or task.losses < task.limits.lost_retries:
            return False
        self._lose(task)
        task.state = "FAILED"
        return True

    def _lose(self, task: Task) -> None:
        task.end_attempt("lost")
        task.losses += 1
        self.workers[task.holder].claims.discard(task.id)

    def end_if_overdue(self, name: str, task: Task, attempt: int, now: int) -> bool:
        """Fail an attempt that exceeds its time limit."""
        if not task.is_held(name, attempt) or not task.overdue(now):
            return False
        task.end_attempt("timed-out")
        task.fail(now)
        self.workers[name].failed_at(task.id)
        return True

    def reported(
        self, name: str, task: Task, attempt: int, outcome: str, reason: str, text: str, now: int
    ) -> bool:
        """Report an attempt; return whether it counts: it must be the current one and held by the worker."""
        if not task.is_held(name, attempt):
            return False
        worker = self.workers[name]
        if outcome == "success":
            task.end_attempt("success", text)
            task.state = "SUCCESS"
            worker.succeeded(task.id)
        elif outcome == "failed-permanent":
            task.end_attempt("failed", text)
            task.failures += 1
            task.state = "FAILED"
            worker.failed_at(task.id)
        elif reason == "discarded":
            task.end_attempt("discarded", text)
            task.retry(now, 0, True)
            worker.claims.discard(task.id)
        elif outcome == "rejected":
            task.end_attempt("rejected", text)
            task.rejections += 1
            task.retry(now, task.limits.reject_interval, task.rejections <= task.limits.reject_retries)
            worker.rejected(task.id)
        else:
            task.end_attempt("timed-out" if reason == "timed-out" else "failed", text)
            task.fail(now)
            worker.failed_at(task.id)
        return True

    def handed_back(self, name: str, task: Task, attempt: int, now: int) -> bool:
        """Hand back a task: neither a failure nor a loss, but the next attempt gets the next number."""
        if not task.is_held(name, attempt):
            return False
        task.end_attempt("handed-back")
        task.retry(now, 0, True)
        self.workers[name].claims.discard(task.id)
        return True
