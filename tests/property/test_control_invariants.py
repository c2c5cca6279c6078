"""Invariants of a Job hold for any sequence of actions of users, workers, state machines and ticks.

CONTROL_EXAMPLES=3000 runs more examples, CONTROL_SEED=7 runs others, CONTROL_SHRINK=1 shrinks a failing one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from shardmill.engine import continuation
from shardmill.model.states import JobState
from support.moto.cloud import Cloud
from support.scenarios.races.job_invariants import JobInvariants
from support.scenarios.races.race import Action, Event, PlannedInterruption, Race, race_factory

EXAMPLES = int(os.environ.get("CONTROL_EXAMPLES", "30"))
SEED = int(os.environ.get("CONTROL_SEED", "0"))
SHRINK = bool(os.environ.get("CONTROL_SHRINK"))

RETRIES = {"failedRetries": 1, "failedInterval": 0, "rejectInterval": 0}
A: dict[str, Any] = {"stepName": "a", "sharding": 3, "maxTaskCount": 2}
SHAPES = [
    {
        "steps": [
            A,
            {"stepName": "b", "sharding": 2, "dependentStep": "a", "failFast": True},
            {"stepName": "c", "dependentStep": "b", "canFail": True},
        ]
    },
    {
        "steps": [
            A | {"canFail": True, "failFast": True},
            {"stepName": "b", "sharding": 2, "dependentStep": "a"},
            {"stepName": "c"},
            {"stepName": "d", "phase": 1},
        ]
    },
    {"steps": [A, {"stepName": "b", "dependentStep": "a"}], "onFailure": "suspend"},
    {"steps": [{"stepName": "a", "sharding": 66, "failFast": True}, {"stepName": "b", "dependentStep": "a"}]},
    {"steps": [A, {"stepName": "b", "dependentStep": "a"}], "concurrency": 1},
    {
        "steps": [
            A,
            {"stepName": "b", "dependentStep": "a", "when": "{{ steps.a.counts.SUCCESS > 2 }}"},
            {"stepName": "c", "doneSteps": ["a", "b"]},
            {"stepName": "d", "dependentStep": "c", "dependency": {"phase": 1, "doneSteps": ["b"]}},
        ],
        "uniqueAliveInstance": True,
    },
]

WORKER_ACTIONS = [
    "lease",
    "lease",
    "lease",
    "success",
    "success",
    "fail",
    "fail_permanently",
    "report_late",
    "heartbeat",
    "restart_worker",
]
SYSTEM_ACTIONS = [
    "run_state",
    "run_state",
    "run_executions",
    "run_executions",
    "tick",
    "deliver_failures",
    "throttle",
]
USER_ACTIONS = [
    "suspend",
    "resume",
    "resume",
    "kill",
    "kill_step",
    "kill_task",
    "force",
    "force_step",
    "force_task",
    "rerun",
    "rerun",
    "priority",
    "delete",
]
NUMBER = st.integers(0, 11)
USER_ACTION = st.tuples(st.sampled_from(USER_ACTIONS), NUMBER, NUMBER)
ANY_ACTION = st.tuples(
    st.sampled_from(WORKER_ACTIONS) | st.sampled_from(SYSTEM_ACTIONS) | st.sampled_from(USER_ACTIONS),
    NUMBER,
    NUMBER,
)
INTERRUPTION = st.builds(
    PlannedInterruption, st.sampled_from(["before", "after", "crash"]), st.integers(1, 12), ANY_ACTION
)
EXPIRY = 15 * 86_400
DELAY = st.sampled_from([0, 0, 0, 0, 0, 0, 3, 61, EXPIRY])
"""Seconds before an event; SQS deletes messages after 14 days."""


UNREPEATED_EVENT = st.builds(Event, DELAY, ANY_ACTION, st.none() | INTERRUPTION)
EVENT = UNREPEATED_EVENT | st.builds(Event, DELAY, USER_ACTION, repeat=st.just(True))
FIRST_ACTIONS: st.SearchStrategy[list[Action]] = st.sampled_from(
    [
        [],
        [("run_executions", 0, 0)],
        [("run_executions", 0, 0), ("lease", 0, 0)],
        [("run_executions", 0, 0), ("lease", 0, 1)],
    ]
)
"""Actions before the script."""

AWS_SEED = st.integers(0, 99)
"""Which reads are stale."""

SKEW = st.sampled_from([0, 0, 3_000, -3_000, 59_000, -59_000])
"""How far the clock of a worker is ahead, in milliseconds."""


@pytest.mark.timeout(36_000)
def test_invariants_hold_for_any_race_of_actions(cloud: Cloud) -> None:
    run_scripts(cloud, EXAMPLES, EVENT)


@pytest.mark.timeout(36_000)
def test_invariants_hold_if_long_work_is_done_in_the_smallest_slices(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuation, "REQUEST_CALLS", 1)
    monkeypatch.setattr(continuation, "SLICE_CALLS", 1)
    run_scripts(cloud, EXAMPLES // 2, UNREPEATED_EVENT)


def run_scripts(cloud: Cloud, examples: int, event: st.SearchStrategy[Event]) -> None:
    with race_factory(cloud) as begin:

        @seed(SEED)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if SHRINK else [])],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            st.sampled_from(SHAPES), st.lists(event, min_size=3, max_size=10), FIRST_ACTIONS, AWS_SEED, SKEW
        )
        def scripts(
            shape: dict[str, Any], script: list[Event], first: list[Action], aws: int, skew: int
        ) -> None:
            race = begin(RETRIES | shape, seed=aws, skew_ms=skew)
            try:
                run_script(race, [*(Event(0, action) for action in first), *script])
            except BaseException as error:
                error.add_note("\n".join(filter(None, race.log)))
                raise
            finally:
                race.close()

        scripts()


def run_script(race: Race, script: list[Event]) -> None:
    invariants = JobInvariants(race)
    for event in script:
        result = race.run_event(event)
        invariants.check()
        if event.repeat and not event.interrupted_by and not result.startswith("refused"):
            before = race.stable_rows()
            race.run_event(event)
            assert race.stable_rows() == before, f"a repeated {event.action} changed something"
            invariants.check()
    race.run_until_idle()
    invariants.check()
    invariants.check_final_state()


@pytest.mark.parametrize(
    "first", [[], [("lease", 0, 0)], [("suspend", 0, 0)]], ids=["sent", "held", "parked"]
)
def test_a_job_whose_messages_expired_runs_on(cloud: Cloud, first: list[Action]) -> None:
    with race_factory(cloud) as begin:
        race = begin(RETRIES | SHAPES[0])
        for action in [("run_executions", 0, 0), *first]:
            race.perform(action)
        sent = len(race.messages())
        assert sent
        race.clock.ms += EXPIRY * 1000
        race.workers[1].manual.receive()  # moto deletes expired messages when a queue is read
        assert len(race.messages()) == 0
        run_script(race, [])
        job = race.job()
        assert job is not None
        assert job.state is JobState.SUCCESS
        race.close()
