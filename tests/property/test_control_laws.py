"""Invariants of a Job hold for any sequence of actions of users, workers, state machines and ticks.

CONTROL_LAW_EXAMPLES=3000 looks harder, CONTROL_LAW_SEED=7 elsewhere, CONTROL_LAW_SHRINK=1 makes what it
finds short.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from support.moto.cloud import Cloud
from support.scenarios.job_invariants import Laws
from support.scenarios.race import Between, Deed, Event, Race, race_track

EXAMPLES = int(os.environ.get("CONTROL_LAW_EXAMPLES", "30"))
SEED = int(os.environ.get("CONTROL_LAW_SEED", "0"))
SHRINK = bool(os.environ.get("CONTROL_LAW_SHRINK"))

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
]

WORK = ["lease", "lease", "lease", "success", "success", "fail", "fail_for_good", "late", "beat", "vanish"]
SELF = ["machine", "machine", "machines", "machines", "tick", "settle"]
CONTROL = [
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
CONTROLS = st.tuples(st.sampled_from(CONTROL), NUMBER, NUMBER)
DEED = st.tuples(st.sampled_from(WORK) | st.sampled_from(SELF) | st.sampled_from(CONTROL), NUMBER, NUMBER)
BETWEEN = st.builds(Between, st.sampled_from(["before", "after", "crash"]), st.integers(1, 12), DEED)
LATER = st.sampled_from([0, 0, 0, 0, 3, 61])
EVENT = st.builds(Event, LATER, DEED, st.none() | BETWEEN) | st.builds(
    Event, LATER, CONTROLS, again=st.just(True)
)
BEGUN: st.SearchStrategy[list[Deed]] = st.sampled_from(
    [[], [("machines", 0, 0)], [("machines", 0, 0), ("lease", 0, 0)], [("machines", 0, 0), ("lease", 0, 1)]]
)
"""What has happened already."""


@pytest.mark.timeout(36_000)
def test_races_of_all_actions_leave_one_truth(cloud: Cloud) -> None:
    with race_track(cloud) as begin:

        @seed(SEED)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if SHRINK else [])],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(SHAPES), st.lists(EVENT, min_size=3, max_size=10), BEGUN)
        def scripts(shape: dict[str, Any], script: list[Event], begun: list[Deed]) -> None:
            race = begin(RETRIES | shape)
            try:
                play(race, [*(Event(0, deed) for deed in begun), *script])
            except BaseException as broken:
                broken.add_note("\n".join(filter(None, race.log)))
                raise
            finally:
                race.close()

        scripts()


def play(race: Race, script: list[Event]) -> None:
    laws = Laws(race)
    for event in script:
        told = race.happen(event)
        laws.check()
        if event.again and not event.between and not told.startswith("refused"):
            before = race.standing()
            race.happen(event)
            assert race.standing() == before, f"{event.deed} again changed something"
            laws.check()
    race.quiet()
    laws.check()
    laws.check_rest()
