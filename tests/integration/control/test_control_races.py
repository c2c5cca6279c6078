"""Regression tests for races that the property tests found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from shardmill.engine.views.explain import history
from shardmill.model.history import Change
from shardmill.model.states import JobState, StepState
from support.moto.cloud import Cloud
from support.scenarios.races.interrupter import Interruption
from support.scenarios.races.job_invariants import JobInvariants
from support.scenarios.races.race import Action, Event, PlannedInterruption, Race, race_factory
from support.watch import observing

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

        def begin_and_settle(document: dict[str, Any]) -> Race:
            race = start(document)
            race.perform(RUN_EXECUTIONS)
            return race

        yield begin_and_settle


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
def test_a_phase_does_not_start_before_a_step_whose_dependent_was_ended_early(
    begin: Begin, action: str
) -> None:
    race = begin(PHASES)
    race.perform((action, 1, 0))
    race.perform(RUN_EXECUTIONS)
    race.perform(("tick", 0, 0))
    assert states(race)["late"] is StepState.WAITING
    race.run_until_idle()
    assert states(race)["late"] is StepState.SUCCESS


def test_a_rerun_keeps_the_phase_order_around_a_step_that_is_not_repeated(begin: Begin) -> None:
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
    """The Job is resumed after the rerun has read it and before the rerun writes."""
    race = begin(CHAIN)
    race.perform(("suspend", 0, 0))
    result = race.run_event(Event(0, ("rerun", 0, 0), PlannedInterruption("after", 3, ("resume", 0, 0))))
    assert result.startswith("refused: the Job race/t1 is QUEUED")
    assert states(race)["a"] is StepState.READY
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS


@pytest.mark.parametrize("document", [CHAIN, CHAIN | {"concurrency": 1}], ids=["plain", "with concurrency"])
def test_no_step_runs_in_a_job_that_is_suspended_while_it_is_resumed(
    begin: Begin, document: dict[str, Any]
) -> None:
    suspended = 0
    for nth in range(1, 21):
        race = begin(document)
        race.perform(("suspend", 0, 0))
        interruption = PlannedInterruption("after", nth, ("suspend", 0, 0))
        race.run_event(Event(0, ("resume", 0, 0), interruption))
        if state(race) is JobState.SUSPENDED:
            suspended += 1
            assert states(race) == {"a": "SUSPENDED", "b": "WAITING"}, f"suspended after call {nth}"
    assert suspended > 5
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS


def test_a_step_starts_if_its_job_is_resumed_while_the_step_before_it_is_closed(begin: Begin) -> None:
    for nth in count(2):
        race = begin(CHAIN)
        race.perform(("lease", 0, 3))
        race.perform(("suspend", 0, 1))
        race.perform(("success", 0, 0))
        interruption = PlannedInterruption("before", nth, ("resume", 0, 0))
        race.run_event(Event(0, RUN_EXECUTIONS, interruption))
        if state(race) is JobState.SUSPENDED:
            break
        race.perform(RUN_EXECUTIONS)
        assert states(race)["b"] is StepState.READY, f"resumed before call {nth}"
    assert nth > 3


def test_an_interrupted_rerun_of_a_suspended_job_leaves_the_job_killed(begin: Begin) -> None:
    race = begin(CHAIN)
    race.perform(("suspend", 0, 0))
    assert race.run_event(Event(0, ("rerun", 0, 0), PlannedInterruption("crash", 5))) == "crashed"
    race.run_until_idle()
    assert state(race) is JobState.KILLED
    assert set(states(race).values()) == {StepState.KILLED}


@pytest.mark.parametrize("nth", range(3, 8))
def test_a_rerun_completes_an_earlier_kill(begin: Begin, nth: int) -> None:
    """After an interrupted kill, no task of the killed run executes alongside the next run."""
    race = begin(CHAIN)
    race.run_event(Event(0, ("kill", 0, 0), PlannedInterruption("crash", nth)))
    race.perform(("rerun", 0, 1))
    assert all(step.state is StepState.KILLED for (run, _), step in race.steps().items() if run == 1)
    race.run_until_idle()
    assert state(race) is JobState.SUCCESS
    assert {lease.run for _, lease in race.all_leases} == {2}


@pytest.mark.parametrize("action", ["kill", "kill_step", "force_step"])
def test_a_worker_that_acknowledged_a_kill_leases_no_task_of_the_job(begin: Begin, action: str) -> None:
    """The worker's process may still cache the step, and the state machine has not stopped it yet."""
    race = begin(CHAIN)
    race.perform(("lease", 0, 0))
    race.perform((action, 0, 0))
    assert race.perform(("heartbeat", 0, 1)) != "set()"
    assert race.perform(("lease", 0, 3)) == "[]"


@pytest.mark.parametrize("action", ["kill", "force_step"])
def test_no_worker_leases_untouched_tasks_of_an_ended_step(begin: Begin, action: str) -> None:
    """No task of the second block was leased; its message is still queued and the step is still cached."""
    race = begin({"steps": [{"stepName": "a", "sharding": 65}]})
    for _ in range(16):
        race.perform(("lease", 0, 3))
    race.perform((action, 0, 0))
    assert race.perform(("lease", 0, 3)) == "[]"
    race.run_until_idle()
    [step] = race.current_steps()
    assert (step.success, step.failed, step.killed) == (0, 0, 65)


def test_state_changes_are_listed_in_the_order_of_their_writes(begin: Begin) -> None:
    """Another suspend and resume happen between a suspension's clock read and its write."""
    race = begin(CHAIN)

    def suspend_and_resume() -> None:
        race.clock.ms += 5
        race.interrupter.act(lambda: [race.perform(("suspend", 0, 0)), race.perform(("resume", 0, 0))])

    race.interrupter.act(
        lambda: race.perform(("suspend", 0, 0)), Interruption("before", 3, suspend_and_resume)
    )
    job = race.job()
    assert job is not None
    recorded = [Change.decode(text).state for text in job.history]
    assert recorded[-3:] == ["SUSPENDED", "QUEUED", "SUSPENDED"]
    with observing():
        assert [each.state for each in history(race.mill, job) if each.step_name is None] == recorded


@pytest.mark.parametrize("nth", range(3, 8))
@pytest.mark.parametrize("first", ["kill", "delete"])
def test_a_deletion_completes_an_interrupted_kill(begin: Begin, first: str, nth: int) -> None:
    """After an interrupted kill, no task of the deleted Job is leased."""
    race = begin(CHAIN)
    race.run_event(Event(0, (first, 0, 0), PlannedInterruption("crash", nth)))
    race.perform(("delete", 0, 0))
    assert state(race) is JobState.DELETED
    assert set(states(race).values()) == {StepState.KILLED}
    race.run_until_idle()
    assert race.all_leases == []


def test_no_worker_leases_tasks_of_a_job_that_was_deleted_in_full(begin: Begin) -> None:
    """Their messages are still queued and their step is still cached, but their rows are to be removed."""
    race = begin(CHAIN)
    race.perform(("lease", 0, 0))
    race.perform(("delete", 0, 1))
    assert race.perform(("lease", 0, 3)) == "[]"
    race.perform(("success", 0, 0))
    race.clock.ms += 62_000
    race.perform(("tick", 0, 0))
    assert race.stable_rows() == {}


@pytest.mark.parametrize("nth", range(4, 8))
def test_an_interrupted_force_of_a_step_is_completed(begin: Begin, nth: int) -> None:
    race = begin(CHAIN)
    race.perform(("lease", 0, 0))
    assert race.run_event(Event(0, ("force_step", 0, 0), PlannedInterruption("crash", nth))) == "crashed"
    race.run_until_idle()
    JobInvariants(race).check_final_state()


@pytest.mark.parametrize("skew_ms", [3_000, -3_000])
def test_a_worker_whose_clock_is_wrong_ends_no_task_twice(cloud: Cloud, skew_ms: int) -> None:
    """It may take a task from another worker; the report of the earlier attempt is then stale."""
    with race_factory(cloud) as start:
        race = start(CHAIN, skew_ms=skew_ms)
        race.perform(RUN_EXECUTIONS)
        invariants = JobInvariants(race)
        for seconds, action in [
            (0, ("lease", 1, 0)),
            (58, ("lease", 0, 3)),
            (0, ("success", 1, 0)),
            (0, ("fail", 0, 1)),
            (3, ("lease", 1, 3)),
            (58, ("lease", 0, 3)),
            (0, ("report_late", 0, 1)),
        ]:
            race.run_event(Event(seconds, action))
            invariants.check()
        race.run_until_idle()
        invariants.check_final_state()


def test_a_job_succeeds_when_lambda_throttles_each_state(begin: Begin) -> None:
    race = begin(PHASES)
    for _ in range(12):
        race.perform(("throttle", 0, 1))
        race.perform(("run_executions", 0, 0))
        race.perform(("lease", 0, 3))
        race.perform(("success", 0, 0))
    assert state(race) is JobState.SUCCESS


def test_a_report_right_before_the_rows_of_a_deleted_job_are_removed_leaves_no_row(cloud: Cloud) -> None:
    with race_factory(cloud) as start:
        for seed in range(4):
            race = start(CHAIN, seed=seed)
            for seconds, action in [
                (0, RUN_EXECUTIONS),
                (0, ("lease", 0, 3)),
                (0, ("delete", 0, 1)),
                (62, ("heartbeat", 0, 0)),
                (0, ("tick", 0, 0)),
            ]:
                race.run_event(Event(seconds, action))
            assert race.stable_rows() == {}
            race.close()


def test_concurrent_deletions_record_one_move(begin: Begin) -> None:
    """A deletion with all rows comes while the Job is being deleted without them."""
    for nth in range(8, 11):
        race = begin(CHAIN)
        race.run_event(Event(0, ("delete", 0, 1), PlannedInterruption("before", nth, ("delete", 0, 0))))
        JobInvariants(race).check()
