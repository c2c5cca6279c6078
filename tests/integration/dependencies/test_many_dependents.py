"""All Jobs and definitions that depend on a Job are notified, in calls of bounded length."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.aws.machines import Machines
from shardmill.engine import continuation, downstream
from shardmill.engine.jobs import children, dependencies
from shardmill.engine.repair import repair
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow
from shardmill.store.table import Throttled
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import define, finish, listed, row
from support.scenarios.long_work import calls_of
from support.scenarios.races.interrupter import Interrupter, Interruption
from support.scenarios.schedule_clock import ScheduleClock, ms

CHILDREN = 12
TIME = "2026-01-05T01:00:00Z"
SLICE = 40
MOST_CALLS = SLICE + 40
"""A slice finishes the dependent that it has begun, and continues soon."""


def names(count: int = CHILDREN) -> list[str]:
    return [f"child{number:02d}" for number in range(count)]


def started(schedules: ScheduleClock, count: int = CHILDREN) -> list[str]:
    return [name for name in names(count) if listed(schedules, name)]


def deliver_slices(schedules: ScheduleClock, faults: Faults) -> list[int]:
    """Deliver the events that continue work until none comes; returns the AWS calls of each."""
    found = []
    calls_of(faults)
    while schedules.runner.cloud.deliver_due_jobs():
        found.append(calls_of(faults))
        assert len(found) < 100
    return found


def end_parent(schedules: ScheduleClock, name: str = "a", trigger: str = "t1") -> None:
    schedules.runner.submit(trigger, name, dataTime=TIME)
    schedules.runner.run(trigger=trigger, name=name)


def test_the_row_of_a_parent_does_not_grow_with_the_children_that_count_it(schedules: ScheduleClock) -> None:
    for name in ("a", "b"):
        define(schedules, name)
    for name in names():
        define(schedules, name, "a", "b")
    finish(schedules, "a", dataTime=TIME)
    assert all(schedules.mill.child_starts.get(name).succeeded for name in names())
    parent = row(schedules, "a", "t1")
    assert not parent.heirs_pending
    assert not any(name in str(parent) for name in names())


def test_a_success_that_the_release_before_counted_counts_once(schedules: ScheduleClock) -> None:
    """It kept the children that had counted a Job in the Job's row."""
    for name in ("a", "b"):
        define(schedules, name)
    define(schedules, "child", "a", "b")
    end_parent(schedules)
    parent = row(schedules, "a", "t1").evolve(counted={"child"})
    downstream.notify_dependents(schedules.mill, parent, schedules.runner.worker.clock(), new_id)
    assert not schedules.mill.child_starts.get("child").succeeded


@pytest.mark.parametrize("kind", ["children", "waiting"])
def test_many_dependents_are_notified_in_slices(
    schedules: ScheduleClock, faults: Faults, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(continuation, "SLICE_CALLS", SLICE)
    define(schedules, "a")
    for name in names():
        define(schedules, name, "a")
    if kind == "waiting":
        for name in names():
            schedules.runner.submit("mine", name, dataTime=TIME)
    end_parent(schedules)
    monkeypatch.setattr(Machines, "start_job", lambda *_: None)  # the calls of executions are not of interest
    calls_of(faults)
    schedules.runner.cloud.deliver_job_ends()
    calls = [calls_of(faults), *deliver_slices(schedules, faults)]
    assert len(calls) > 2
    assert max(calls) <= MOST_CALLS, calls
    assert [len(listed(schedules, name)) for name in names()] == [1] * CHILDREN
    assert not any(row(schedules, name, listed(schedules, name)[0]["trigger"]).unmet for name in names())
    parent = row(schedules, "a", "t1")
    assert (parent.heirs_pending, parent.notifying) == (False, {})


def test_the_tick_continues_if_the_event_is_lost(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuation, "SLICE_CALLS", SLICE)
    define(schedules, "a")
    for name in names():
        define(schedules, name, "a")
    end_parent(schedules)
    schedules.runner.cloud.deliver_job_ends()
    assert 0 < len(started(schedules)) < CHILDREN
    schedules.runner.cloud.published()  # lost
    for minute in range(2, 30):
        schedules.runner.tick(minutes=minute)
        schedules.runner.cloud.published()
    assert len(started(schedules)) == CHILDREN
    assert not row(schedules, "a", "t1").heirs_pending


def test_one_dependent_that_fails_does_not_stop_the_others(
    schedules: ScheduleClock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those after it are notified, and later slices repeat only from the one that failed."""
    monkeypatch.setattr(continuation, "SLICE_CALLS", SLICE)
    define(schedules, "a")
    for name in names():
        define(schedules, name, "a")
    tried: list[str] = []
    start_child = children.start_child

    def start(mill: Any, parent: JobRow, name: str, *rest: Any) -> None:
        tried.append(name)
        if name == "child05" and tried.count(name) < 3:
            raise Throttled
        start_child(mill, parent, name, *rest)

    monkeypatch.setattr(children, "start_child", start)
    end_parent(schedules)
    schedules.runner.cloud.deliver_job_ends()
    deliver_slices(schedules, faults)
    assert started(schedules) == [name for name in names() if name != "child05"]
    for minute in range(2, 12):
        schedules.runner.tick(minutes=minute)
        deliver_slices(schedules, faults)
    assert started(schedules) == names()
    assert [tried.count(name) for name in names()[:5]] == [1] * 5
    assert not row(schedules, "a", "t1").heirs_pending


def test_a_parent_is_not_deleted_before_all_waiting_jobs_are_notified(
    schedules: ScheduleClock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream, "COMPLETION_CALLS", SLICE)
    define(schedules, "a")
    for name in names():
        define(schedules, name, "a")
        schedules.runner.submit("mine", name, dataTime=TIME)
    end_parent(schedules)
    answers = [schedules.runner.cloud.http("DELETE", "/v1/jobs/a/t1") for _ in range(CHILDREN)]
    statuses = [answer.status for answer in answers]
    assert statuses[0] == 503
    assert "Retry-After" in {name.title() for name in answers[0].headers}
    assert 204 in statuses
    assert all(listed(schedules, name)[0]["state"] != "WAITING" for name in names())


@pytest.mark.parametrize("path", ["DELETE /v1/jobs/a/t1", "POST /v1/jobs/a/t1:rerun"])
def test_a_parent_whose_dependents_cannot_be_notified_now_is_neither_deleted_nor_rerun(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    define(schedules, "a")
    define(schedules, "child", "a")
    schedules.runner.submit("mine", "child", dataTime=TIME)
    end_parent(schedules)
    method, place = path.split()
    with monkeypatch.context() as patch:
        patch.setattr(dependencies, "check_dependencies", lambda *_: throttled())
        body = {"scope": "all"} if method == "POST" else None
        assert schedules.runner.cloud.http(method, place, body).status == 503
    assert row(schedules, "a", "t1").state is JobState.SUCCESS
    assert schedules.runner.cloud.http(method, place, body).status in (202, 204, 200)
    schedules.runner.cloud.run_until(lambda: row(schedules, "child", "mine").state is not JobState.WAITING)


def throttled() -> None:
    raise Throttled


def test_a_crash_at_each_call_of_a_slice_starts_each_child_once(
    schedules: ScheduleClock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice starts one child; the tick continues after a crash in the first one."""
    monkeypatch.setattr(Machines, "start_job", lambda *_: None)
    monkeypatch.setattr(continuation, "SLICE_CALLS", 1)
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    mill, now = schedules.mill, schedules.runner.worker.clock
    define(schedules, "a")
    for name in names(3):
        define(schedules, name, "a")
    for calls in count(1):
        parent = succeeded("a", minute=calls, now=now())
        assert mill.jobs.create(parent, due=now())
        mill.jobs.event_published(parent, due=now())
        interruption = Interruption("crash", calls)
        with suppress(ProcessKilled):
            interrupter.act(partial(downstream.job_ended, mill, parent.id, 1, now(), new_id), interruption)
        for _ in range(5):
            repair(mill, parent.id, now(), new_id, budget=continuation.Budget.of_slice())
        ended = mill.jobs.get(parent.id)
        assert ended is not None
        assert not ended.heirs_pending
        found = [list(mill.runs.between(name, parent.moment, parent.moment + 1)) for name in names(3)]
        assert [len(each) for each in found] == [1, 1, 1], f"crash at call {calls}"
        if not interruption.reached:
            break
    assert calls > 8


def succeeded(name: str, *, minute: int, now: int) -> JobRow:
    return JobRow(
        id=new_id(),
        jid=1,
        job_name=name,
        trigger=f"t{minute}",
        version=1,
        state=JobState.SUCCESS,
        request_hash="hash",
        create_time=now,
        update_time=now,
        data_time=ms("2026-01-05 00:00") + minute * 60_000,
        event_pending=True,
        heirs_pending=True,
    )
