"""Rerun a Job with its dependents: each once, after its parents, even after a crash."""

from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.aws.machines import Machines
from shardmill.engine import downstream
from shardmill.engine.control.dependents import rerun_with_dependents
from shardmill.engine.control.rerun import Scope
from shardmill.engine.repair import repair
from shardmill.model.actor import Actor
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import define, finish, listed, row
from support.scenarios.races.interrupter import Interrupter, Interruption
from support.scenarios.schedule_clock import ScheduleClock

DAY = "2026-01-05T00:00:00Z"
T = "20260105T000000Z"
NAMES = ("root", "left", "right", "last")
RERUN = "/v1/jobs/root/t1:rerun"


@pytest.fixture
def diamond(schedules: ScheduleClock) -> ScheduleClock:
    """root -> left, right -> last; all have succeeded once."""
    define(schedules, "root")
    define(schedules, "left", "root")
    define(schedules, "right", "root")
    define(schedules, "last", "left", "right")
    finish(schedules, "root", dataTime=DAY)
    for name in NAMES[1:]:
        work(schedules, name)
    return schedules


def work(schedules: ScheduleClock, name: str) -> None:
    schedules.runner.run(trigger="t1" if name == "root" else T, name=name)
    schedules.runner.cloud.deliver_job_ends()


def states(schedules: ScheduleClock) -> dict[str, tuple[str, int]]:
    found = {name: row(schedules, name, "t1" if name == "root" else T) for name in NAMES}
    return {name: (job.state.value, job.run) for name, job in found.items()}


def test_dependents_wait_for_their_parents_and_run_once(diamond: ScheduleClock) -> None:
    diamond.runner.post(RERUN, {"dependents": True, "reason": "new rates"})
    assert {name: state for name, state in states(diamond).items() if name != "root"} == dict.fromkeys(
        NAMES[1:], ("WAITING", 2)
    )
    for name in NAMES:
        work(diamond, name)
    assert states(diamond) == dict.fromkeys(NAMES, ("SUCCESS", 2))
    for parent, child in (("root", "left"), ("root", "right"), ("left", "last"), ("right", "last")):
        ended = row(diamond, parent, "t1" if parent == "root" else T).completed_time or 0
        assert ended <= (row(diamond, child, T).started_time or 0), (parent, child)
    assert any("rerun with root/t1" in entry for entry in row(diamond, "last", T).history)
    assert [len(listed(diamond, name)) for name in NAMES] == [1, 1, 1, 1]


def test_the_dependents_are_listed_in_their_order(diamond: ScheduleClock) -> None:
    items = diamond.runner.cloud.http("GET", "/v1/jobs/root/t1/dependents").json["items"]
    assert {items[0]["jobName"], items[1]["jobName"]} == {"left", "right"}
    assert [each["jobName"] for each in items[2:]] == ["last"]
    assert states(diamond) == dict.fromkeys(NAMES, ("SUCCESS", 1))


def test_a_rerun_without_dependents_does_not_rerun_them(diamond: ScheduleClock) -> None:
    diamond.runner.post(RERUN, {"scope": "all"})
    work(diamond, "root")
    assert {state for name, state in states(diamond).items() if name != "root"} == {("SUCCESS", 1)}


def test_a_repeated_event_reruns_nothing(diamond: ScheduleClock) -> None:
    diamond.runner.post(RERUN, {"dependents": True})
    for name in NAMES:
        work(diamond, name)
    root = row(diamond, "root", "t1").evolve(with_dependents=True)
    downstream.notify_dependents(diamond.mill, root, diamond.runner.worker.clock(), new_id)
    assert states(diamond) == dict.fromkeys(NAMES, ("SUCCESS", 2))


def test_a_rerun_is_rejected_while_a_dependent_runs(diamond: ScheduleClock) -> None:
    diamond.runner.post(f"/v1/jobs/last/{T}:rerun", {"scope": "all"})
    refused = diamond.runner.post(RERUN, {"dependents": True}, status=409)
    assert refused["code"] == "job-not-ended"
    assert f"last/{T} is" in refused["detail"]
    assert row(diamond, "root", "t1").run == 1


def test_a_deleted_dependent_is_created_again_by_its_parent(diamond: ScheduleClock) -> None:
    assert diamond.runner.cloud.http("DELETE", f"/v1/jobs/left/{T}").status == 204
    diamond.runner.post(RERUN, {"dependents": True})
    for name in NAMES:
        work(diamond, name)
    assert states(diamond) == {
        "root": ("SUCCESS", 2),
        "left": ("SUCCESS", 1),
        "right": ("SUCCESS", 2),
        "last": ("SUCCESS", 2),
    }


def test_every_dependent_is_rerun_after_a_crash_at_any_call(
    schedules: ScheduleClock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each crash the root ends, and its end completes what the rerun began.

    The repair starts the executions: their threads must not run while calls are counted.
    """
    define(schedules, "root")
    define(schedules, "left", "root")
    finish(schedules, "root", dataTime=DAY)
    work(schedules, "left")
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    act: Any = partial(rerun_with_dependents, schedules.mill, scope=Scope(), actor=Actor("me"), reason="")
    crashed = 0
    for calls in count(1):
        before = row(schedules, "root", "t1").run
        interruption = Interruption("crash", calls)
        now = schedules.runner.worker.clock()
        with suppress(ProcessKilled), monkeypatch.context() as patch:
            patch.setattr(Machines, "start_job", lambda *_: None)
            interrupter.act(partial(act, row(schedules, "root", "t1"), now=now), interruption)
        root = row(schedules, "root", "t1")
        if root.run == before:
            continue
        for name, trigger in (("root", "t1"), ("left", T)):
            repair(schedules.mill, row(schedules, name, trigger).id, now, new_id)
            work(schedules, name)
        left = row(schedules, "left", T)
        assert (left.state.value, left.run) == ("SUCCESS", root.run), f"after call {calls}"
        if not interruption.reached:
            break
        crashed += 1
    assert crashed > 3
