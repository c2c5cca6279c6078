"""Run a Job, its workers, state machines and users in one thread and under one clock.

A script lists the actions, their times, and the actions that interrupt them between two AWS calls. Table and
queues are moto's; the state machines are the real ones (`support.moto.step_functions`); each process has its
own caches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from shardmill.engine.errors import Conflict, MillError, NotFound
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.table import RowGone
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.aws_rules.queues import Receipts
from support.aws_rules.stale_reads import stale_reads
from support.moto.cloud import Cloud
from support.scenarios.manual_clock import BEGIN, ManualClock, queue_clock
from support.scenarios.races.interrupter import Interrupter, Interruption, Moment
from support.scenarios.races.race_actions import RaceActions
from support.scenarios.races.race_environment import ID, LEASE_SECONDS

STATE_NAMES = {state.value for kind in (JobState, StepState, TaskState) for state in kind}
_NO_EFFECT = ("", "[]", "set()", "0", "1", "none")

Action = tuple[str, int, int]
"""The name of a `RaceActions.do_` method, its target and its variant."""


@dataclass(frozen=True)
class PlannedInterruption:
    """An action that interrupts another at its nth AWS call."""

    moment: Moment
    nth: int
    action: Action = ("run_executions", 0, 0)


@dataclass(frozen=True)
class Event:
    delay_seconds: int
    action: Action
    interrupted_by: PlannedInterruption | None = None
    repeat: bool = False


@dataclass
class Race(RaceActions):
    """Runs events until nothing changes, and logs what had an effect."""

    log: list[str] = field(default_factory=list)

    def run_event(self, event: Event) -> str:
        """Run an event after its delay; return the result of its action."""
        self.clock.ms += event.delay_seconds * 1000 + 1
        interruption = None
        if event.interrupted_by:
            planned = event.interrupted_by

            def meanwhile() -> None:
                self.clock.ms += 1
                self.interrupter.act(lambda: self.perform(planned.action))

            interruption = Interruption(planned.moment, planned.nth, meanwhile)
        return self.interrupter.act(lambda: self.perform(event.action), interruption)

    def perform(self, action: Action) -> str:
        name, target, variant = action
        at = len(self.log)
        self.log.append("")
        try:
            result = str(getattr(self, f"do_{name}")(target, variant))
        except ProcessKilled:
            result = "crashed"
        except RowGone:
            result = "refused: DELETED"
            if self.job():
                raise
        except (Conflict, NotFound) as refused:
            result = f"refused: {refused}"
            if isinstance(refused, Conflict) and STATE_NAMES.isdisjoint(re.findall(r"\w+", result)):
                raise AssertionError(f"{action}: {refused!r} names no state") from refused
        except MillError as error:
            raise AssertionError(f"{action}: {error!r} is not a refusal that names a state") from error
        self.log[at] = f"{self.clock.ms - BEGIN:>8} {action} {result}" if result not in _NO_EFFECT else ""
        return result

    def run_until_idle(self) -> None:
        """Run machines, ticks and workers until nothing changes; resume the Job if it is suspended."""
        before: object = None
        for _ in range(30):
            self.clock.ms += (LEASE_SECONDS + 2) * 1000
            self.perform(("run_executions", 0, 0))
            for target in range(len(self.workers)):
                self.perform(("heartbeat", target, 0))
                self.perform(("success", target, 0))
                self._work_until_empty(target)
            self.perform(("run_executions", 0, 0))
            self.perform(("deliver_failures", 0, 0))
            self.perform(("tick", 0, 0))
            job = self.job()
            if job and job.state is JobState.SUSPENDED and job.parked:
                self.perform(("resume", 0, 0))
            now = (self.stable_rows(), self.messages())
            if now == before and self._is_idle():
                return
            before = now
        job, steps = self.job(), [(step.name, step.state, step.waiting) for step in self.current_steps()]
        raise AssertionError(f"does not become idle: {job}, {steps}, {self.messages()}")

    def _work_until_empty(self, target: int) -> None:
        """Lease and succeed until no message is visible; obsolete messages may come first."""
        left = -1
        while self.perform(("lease", target, 9)) != "[]" or len(self.messages()) != left:
            left = len(self.messages())
            self.perform(("success", target, 0))

    def _is_idle(self) -> bool:
        job = self.job()
        if not job:
            return True
        stopped = job.state.ended or (job.state is JobState.SUSPENDED and not job.parked)
        return stopped and not job.event_pending and not job.heirs_pending

    def stable_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows of the Job, without the attributes that reads change."""
        volatile = ("update_time", "da", "dk")
        return {
            key: {name: value for name, value in row.items() if name not in volatile}
            for key, row in self.rows().items()
            if ID in key[0]
        }


class Begin(Protocol):
    def __call__(self, document: dict[str, Any], *, seed: int = 0, skew_ms: int = 0) -> Race: ...


@contextmanager
def race_factory(cloud: Cloud) -> Iterator[Begin]:
    """Yield a function that starts a race with a definition; races run one after the other.

    Eventually consistent reads are stale: `seed` chooses which, and what they miss. The clock of the first
    worker is ahead by `skew_ms`."""
    clock, interrupter = ManualClock(), Interrupter()
    with (
        queue_clock(clock),
        Faults(rules=False) as faults,
        stale_reads(faults.add_rule, clock=clock) as stale,
    ):
        faults.add_rule(Receipts().around)
        faults.add_rule(interrupter.around)

        def begin(document: dict[str, Any], *, seed: int = 0, skew_ms: int = 0) -> Race:
            faults.calls.clear()
            race = Race(cloud, clock, interrupter, skew_ms=skew_ms)
            stale.begin(seed)
            race.begin(document)
            return race

        yield begin
