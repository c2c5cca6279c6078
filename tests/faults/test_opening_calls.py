"""Interrupt the calls that plan a Job or close a step, and open the steps that follow, at each AWS call.

In every run, reads are stale, Lambda throttles the state machines, and the clock of a worker is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from shardmill.engine import continuation
from shardmill.engine.mill import Mill
from shardmill.engine.running import end_tasks
from shardmill.model.states import JobState
from shardmill.store.rows import StepRow
from support.moto.cloud import Cloud
from support.scenarios.races.interrupter import Interruption, Moment
from support.scenarios.races.job_invariants import JobInvariants
from support.scenarios.races.race import Action, Begin, Race, race_factory

STEPS: dict[str, Any] = {
    "steps": [
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "sharding": 2},
        {"stepName": "c", "phase": 1},
    ]
}
RUN_EXECUTIONS: Action = ("run_executions", 0, 0)
THROTTLE: Action = ("throttle", 0, 1)
SKEW_MS = 3_000


@pytest.fixture
def begin(cloud: Cloud) -> Iterator[Begin]:
    with race_factory(cloud) as start:
        yield start


def races_until(begin: Begin, stage: str, document: dict[str, Any] = STEPS) -> Iterator[Race]:
    """Yield races of which the next call of a state machine plans the Job or closes its first step."""
    for seed in count():
        race = begin(document, seed=seed, skew_ms=SKEW_MS)
        race.perform(THROTTLE)
        if stage == "close":
            race.perform(RUN_EXECUTIONS)
            race.perform(("lease", 0, 0))
            race.perform(("success", 0, 0))
            race.perform(THROTTLE)
        yield race
        race.close()


def interrupt(race: Race, moment: Moment, nth: int, meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Run one call of a state machine, interrupted at its nth AWS call; False if it makes fewer calls."""
    interruption = Interruption(moment, nth, meanwhile)
    while not interruption.calls:  # a state that waits for a token makes none
        race.interrupter.act(lambda: race.perform(("run_state", 0, 0)), interruption)
    return interruption.reached


def check_end(race: Race) -> JobState:
    invariants = JobInvariants(race)
    invariants.check()
    race.run_until_idle()
    invariants.check()
    invariants.check_final_state()
    job = race.job()
    assert job is not None
    return job.state


@pytest.mark.parametrize(
    ("stage", "repeated", "days"),
    [("plan", True, 0), ("plan", True, 15), ("close", True, 0), ("close", False, 15)],
)
def test_a_job_succeeds_if_a_call_crashes(begin: Begin, stage: str, repeated: bool, days: int) -> None:
    """The state machine repeats the call; even without that, the tick completes what is missing.

    After 15 days, the messages that were sent have expired."""
    for nth, race in zip(count(1), races_until(begin, stage), strict=False):
        [execution] = race.state_machines.runnable()
        if not interrupt(race, "crash", nth):
            assert nth > 8
            return
        if not repeated and execution.status == "RUNNING":
            execution.status = "SUCCEEDED"
        race.clock.ms += days * 86_400_000
        assert check_end(race) is JobState.SUCCESS, f"crash at call {nth}"


@pytest.mark.parametrize("stage", ["plan", "close"])
@pytest.mark.parametrize("action", ["suspend", "kill", "force_step", "priority"])
def test_invariants_hold_for_any_action_between_two_calls(begin: Begin, stage: str, action: str) -> None:
    for nth, race in zip(count(1), races_until(begin, stage), strict=False):
        if not interrupt(race, "after", nth, lambda race=race: race.perform((action, 1, 1))):  # type: ignore[misc]
            return
        check_end(race)


@pytest.mark.parametrize("action", [("kill", 0, 0), ("delete", 0, 0), ("force", 0, 0), ("force_step", 1, 0)])
def test_no_execution_waits_for_a_step_that_was_ended_before_it_started(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    """A close has opened the next step; the step is ended before its execution starts, its tasks after it."""
    monkeypatch.setattr(continuation, "REQUEST_CALLS", 3)
    monkeypatch.setattr(end_tasks, "CHUNK", 1)
    ended: list[str] = []

    def start_step(mill: Mill, step: StepRow, opened: Any = None) -> None:
        if opened and step.name == "b" and not ended:
            ended.append(race.interrupter.act(lambda: race.perform(action)))
        started(mill, step, opened)

    started = Mill.start_step
    monkeypatch.setattr(Mill, "start_step", start_step)
    first, second, *others = STEPS["steps"]
    race = next(races_until(begin, "close", {"steps": [first, second | {"sharding": 66}, *others]}))
    race.perform(RUN_EXECUTIONS)
    assert ended
    assert check_end(race).ended
    race.close()
