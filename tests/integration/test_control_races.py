"""Races that tests/property found; each has a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shardmill.engine.views.explain import history
from shardmill.model.history import Change
from shardmill.model.states import JobState, StepState
from support.moto.cloud import Cloud
from support.scenarios.interrupter import Interruption
from support.scenarios.race import Action, Event, PlannedInterruption, Race, race_factory

CHAIN = {"steps": [{"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"}]}
PHASES = {
    "steps": [
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a"},
        {"stepName": "late", "phase": 1},
    ]
}
RUN_EXECUTIONS: Action = ("run_executions", 0, 0)
Begin = Callable[[dict[str, Any]], Race]


@pytest.fixture
def begin(cloud: Cloud) -> Iterator[Begin]:
    with race_factory(cloud) as start:

        def settled(document: dict[str, Any]) -> Race:
            race = start(document)
            race.perform(RUN_EXECUTIONS)
            return race

        yield settled


def states(race: Race) -> dict[str, StepState]:
    return {step.name: step.state for step in race.current_steps()}


def state(race: Race) -> JobState:
    job = race.job()
    assert job is not None
    return job.state


@pytest.mark.parametrize("action", ["kill_step", "force_step"])
def test_a_job_does_not_end_before_a_step_whose_dependent_was_ended_early(begin: Begin, action: str) -> None:
    race = begin(CHAIN)
    race.perform((action, 1, 0))
    assert not state(race).ended
    assert states(race)["a"] is StepState.READY
    race.run_until_idle()
    assert states(race)["a"] is StepState.SUCCESS
    assert state(race) is (JobState.FAILED if action == "kill_step" else JobState.SUCCESS)


@pytest.mark.parametrize("action", ["kill_step", "force_step"])
def test_a_phase_does_not_begin_before_a_step_whose_dependent_was_ended_early(
    begin: Begin, action: str
) -> None:
    race = begin(PHASES)
    race.perform((action, 1, 0))
    race.perform(RUN_EXECUTIONS)
    race.perform(("tick", 0, 0))
    assert states(race)["late"] is StepState.WAITING
    race.run_until_idle()
    assert states(race)["late"] is StepState.SUCCESS


def test_a_rerun_keeps_the_order_of_phases_around_a_kept_step(begin: Begin) -> None:
    race = begin(PHASES)
    race.perform(("force_step", 1, 0))
    for _ in ("a", "late"):
        race.perform(("lease", 0, 3))
        race.perform(("fail_permanently", 0, 0))
        race.perform(RUN_EXECUTIONS)
    assert states(race) == {"a": "FAILED", "b": "SUCCESS", "late": "FAILED"}
    race.perform(("rerun", 0, 0))
    race.perform(RUN_EXECUTIONS)
    assert states(race) == {"a": "READY", "b": "SUCCESS", "late": "WAITING"}
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS


def test_a_rejected_rerun_leaves_a_suspended_job_unchanged(begin: Begin) -> None:
    """Between its look at the Job and its first write, somebody has the Job go on."""
    race = begin(CHAIN)
    race.perform(("suspend", 0, 0))
    result = race.run_event(Event(0, ("rerun", 0, 0), PlannedInterruption("after", 3, ("resume", 0, 0))))
    assert result.startswith("refused: the Job race/t1 is QUEUED")
    assert states(race)["a"] is StepState.READY
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS


def test_a_rerun_of_a_suspended_job_that_breaks_off_leaves_a_killed_one(begin: Begin) -> None:
    race = begin(CHAIN)
    race.perform(("suspend", 0, 0))
    assert race.run_event(Event(0, ("rerun", 0, 0), PlannedInterruption("crash", 5))) == "crashed"
    race.run_until_idle()
    assert state(race) is JobState.KILLED
    assert set(states(race).values()) == {StepState.KILLED}


@pytest.mark.parametrize("nth", range(3, 8))
def test_a_rerun_completes_an_earlier_kill(begin: Begin, nth: int) -> None:
    """A kill broke off: nothing of the run that it ended may go on beside the next."""
    race = begin(CHAIN)
    race.run_event(Event(0, ("kill", 0, 0), PlannedInterruption("crash", nth)))
    race.perform(("rerun", 0, 1))
    assert all(step.state is StepState.KILLED for (run, _), step in race.steps().items() if run == 1)
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS
    assert {lease.run for _, lease in race.all_leases} == {2}


@pytest.mark.parametrize("action", ["kill", "kill_step", "force_step"])
def test_a_worker_that_acknowledged_a_kill_leases_no_task_of_the_job(begin: Begin, action: str) -> None:
    """It may remember the step from before the kill; the state machine has not swept it yet."""
    race = begin(CHAIN)
    race.perform(("lease", 0, 0))
    race.perform((action, 0, 0))
    assert race.perform(("heartbeat", 0, 1)) != "set()"
    assert race.perform(("lease", 0, 3)) == "[]"


@pytest.mark.parametrize("action", ["kill", "force_step"])
def test_no_worker_leases_untouched_tasks_of_an_ended_step(begin: Begin, action: str) -> None:
    """Of the second block nobody touched a task; its message is there, and a worker remembers the step."""
    race = begin({"steps": [{"stepName": "a", "sharding": 65}]})
    for _ in range(16):
        race.perform(("lease", 0, 3))
    race.perform((action, 0, 0))
    assert race.perform(("lease", 0, 3)) == "[]"
    race.run_until_idle()
    [step] = race.current_steps()
    assert (step.success, step.failed, step.killed) == (0, 0, 65)


def test_state_changes_are_listed_in_the_order_of_their_writes(begin: Begin) -> None:
    """Between a suspension's look at the clock and its write, somebody suspends and resumes."""
    race = begin(CHAIN)

    def both() -> None:
        race.clock.ms += 5
        race.interrupter.act(lambda: [race.perform(("suspend", 0, 0)), race.perform(("resume", 0, 0))])

    race.interrupter.act(lambda: race.perform(("suspend", 0, 0)), Interruption("before", 3, both))
    job = race.job()
    assert job is not None
    made = [Change.decode(text).state for text in job.history]
    assert made[-3:] == ["SUSPENDED", "QUEUED", "SUSPENDED"]
    assert [each.state for each in history(race.mill, job) if each.step_name is None] == made


@pytest.mark.parametrize("nth", range(3, 8))
@pytest.mark.parametrize("first", ["kill", "delete"])
def test_a_deletion_finishes_the_kill_before_it(begin: Begin, first: str, nth: int) -> None:
    """A kill broke off: nothing of a deleted Job may be leased."""
    race = begin(CHAIN)
    race.run_event(Event(0, (first, 0, 0), PlannedInterruption("crash", nth)))
    race.perform(("delete", 0, 0))
    assert state(race) is JobState.DELETED
    assert set(states(race).values()) == {StepState.KILLED}
    race.run_until_idle()
    assert race.all_leases == []
