"""Crash at each AWS call of a suspension, a resumption or a change that is carried out in slices.

Reads are stale, Lambda throttles the state machines, and the clock of a worker is wrong."""

from __future__ import annotations

from itertools import count
from typing import Literal

import pytest

from shardmill.engine import continuation, repair
from shardmill.engine.continuation import Budget
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow
from support.moto.cloud import Cloud
from support.scenarios.races.interrupter import Interruption
from support.scenarios.races.job_invariants import JobInvariants
from support.scenarios.races.race import Action, Race, race_factory
from support.scenarios.races.race_environment import ID

STEPS = {"steps": [{"stepName": name} for name in "ab"]}
PRIORITIES = (1, 20, -5, 2)
"""By the variant of the action `priority`."""


def job_of(race: Race) -> JobRow:
    job = race.job()
    assert job is not None
    return job


def is_accepted(race: Race, action: Action) -> bool:
    """Whether the request has changed the Job's row, so that it need not be repeated."""
    job = job_of(race)
    if action[0] == "priority":
        return job.priority == PRIORITIES[action[2]]
    return (job.state is JobState.SUSPENDED) is (action[0] == "suspend")


def is_complete(race: Race, action: Action) -> bool:
    job, steps = job_of(race), race.current_steps()
    if action[0] == "priority":
        return not job.unapplied and {step.priority for step in steps} == {PRIORITIES[action[2]]}
    wanted = StepState.SUSPENDED if action[0] == "suspend" else StepState.READY
    return not job.event_pending and {step.state for step in steps} == {wanted}


def actions(nth: int) -> list[Action]:
    return [("suspend", 0, 0), ("resume", 0, 0), ("priority", 0, 1 + nth % 3)]


def crash(race: Race, action: Action, place: Literal["request", "slice"], nth: int) -> bool:
    """Crash at the nth call of a request or of the slice after it; False if it makes fewer calls."""
    race.clock.ms += 1000
    planned = Interruption("crash", nth)
    request = planned if place == "request" else None
    if race.interrupter.act(lambda: race.perform(action), request) == "crashed":
        if not is_accepted(race, action):
            race.perform(action)
        return True
    if place == "slice":
        assert not is_complete(race, action)
        race.interrupter.act(lambda: race.perform(("slice", 0, 0)), planned)
    return planned.reached


class SlicedRace(Race):
    def do_slice(self, target: int, variant: int) -> str:
        """Continue the Job as an event that asks for it does."""
        repair.repair(self.process(), ID, self.clock(), lambda: ID, budget=Budget.of_slice())
        return "continued"

    def remove_messages(self) -> None:
        self.clock.ms += 61_000  # SQS allows one purge a minute
        for queue in self.group.queues[:3]:
            self.cloud.clients.sqs.purge_queue(QueueUrl=queue)


@pytest.mark.parametrize("place", ["request", "slice"])
def test_the_tick_completes_an_action_that_crashed_at_any_call(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, place: Literal["request", "slice"]
) -> None:
    monkeypatch.setattr(continuation, "REQUEST_CALLS", 1)
    with race_factory(cloud) as begin:
        race = begin(STEPS, skew_ms=3_000)
        race.__class__ = SlicedRace
        race.perform(("throttle", 0, 3))
        race.perform(("run_executions", 0, 0))
        invariants = JobInvariants(race)
        for nth in count(1):
            reached = False
            for action in actions(nth):
                reached |= crash(race, action, place, nth)
                for _ in range(3):
                    if is_complete(race, action):
                        break
                    race.clock.ms += 61_000
                    race.perform(("tick", 0, 0))
                assert is_complete(race, action), f"{action}, crash at call {nth}"
                if action[0] == "suspend":
                    race.remove_messages()  # they are void, and many of them make moto slow
            if not reached:
                break
        assert nth > 8
        race.perform(("throttle", 0, 3))
        race.run_until_idle()
        invariants.check()
        invariants.check_final_state()
        assert job_of(race).state is JobState.SUCCESS
        race.close()
