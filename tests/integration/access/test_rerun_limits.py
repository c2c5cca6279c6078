"""A rerun beyond a limit of the application changes nothing, also one of several Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from shardmill.aws.clock import new_id, now_ms
from shardmill.engine.control import dependents
from shardmill.engine.jobs.submit import submit
from shardmill.engine.mill import Mill, mill
from shardmill.engine.repair import repair
from shardmill.model.access.limits import Limits
from shardmill.model.actor import Actor
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.application_use import used
from support.scenarios.job_chain import define, finish, row
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock

DAY = "2026-01-05T00:00:00Z"
T = "20260105T000000Z"
NAMES = {"root": "t1", "left": T, "right": T}


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with moto_cloud(parameters={"ApplicationJobs": "3", "ApplicationTasks": "10"}) as started:
        yield started


@pytest.fixture
def family(schedules: ScheduleClock) -> ScheduleClock:
    """root -> left, right; all have succeeded once. `other` waits for workers that do not exist."""
    define(schedules, "root")
    define(schedules, "left", "root")
    define(schedules, "right", "root")
    finish(schedules, "root", dataTime=DAY)
    for name in ("left", "right"):
        work(schedules, name)
    assert schedules.runner.cloud.http("PUT", "/v1/groups/idle", {}).status == 201
    define(schedules, "other", workerGroup="idle")
    return schedules


def work(schedules: ScheduleClock, name: str) -> None:
    schedules.runner.run(trigger=NAMES[name], name=name)
    schedules.runner.cloud.deliver_job_ends()


def runs(schedules: ScheduleClock) -> list[int]:
    return [row(schedules, name, trigger).run for name, trigger in NAMES.items()]


def test_a_rerun_with_dependents_is_rejected_if_not_all_fit_into_the_limit(family: ScheduleClock) -> None:
    family.runner.submit("t1", "other")
    answer = family.runner.post("/v1/jobs/root/t1:rerun", {"dependents": True}, status=409)
    assert (answer["code"], answer["limit"]) == ("limit-reached", "jobs")
    assert "it has 1; this needs 3 more" in answer["detail"]
    assert runs(family) == [1, 1, 1]
    assert used(family.runner.cloud, "") == {"definitions": 4, "jobs": 1, "tasks": 1}
    family.runner.post("/v1/jobs/other/t1:kill")
    family.runner.post("/v1/jobs/root/t1:rerun", {"dependents": True})
    assert runs(family) == [2, 2, 2]


def test_a_dependent_beyond_the_limit_is_rerun_when_a_job_ends(
    family: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request takes the last room after the check."""
    begin = dependents.rerun

    def rerun(*args: object, **named: object) -> object:
        started = partial(begin, *args, **named)()  # type: ignore[arg-type]
        if named.get("with_dependents"):
            family.runner.submit("t1", "other")
        return started

    monkeypatch.setattr(dependents, "rerun", rerun)
    family.runner.post("/v1/jobs/root/t1:rerun", {"dependents": True})
    assert sorted(runs(family)) == [1, 2, 2]
    family.runner.post("/v1/jobs/other/t1:kill")
    work(family, "root")
    repair(family.mill, row(family, "root", "t1").id, family.runner.worker.clock() + 120_000, new_id)
    assert runs(family) == [2, 2, 2]
    for name in ("left", "right"):
        work(family, name)
        assert row(family, name, T).state.value == "SUCCESS"


def test_a_suspended_job_stays_suspended_if_its_rerun_does_not_fit(runner: JobRunner) -> None:
    """It was submitted before there were limits, so that it is not counted yet."""
    before = Mill.connect(mill().settings._replace(limits=Limits()))
    runner.define({"stepName": "a"})
    request = {"jobName": "orders", "trigger": "t1"}
    submit(before, request, Actor("me"), now=now_ms(), new_id=new_id)
    runner.cloud.run_until(lambda: runner.row(0).opened)
    runner.post("/v1/jobs/orders/t1:suspend")
    for number in range(3):
        runner.submit(f"other-{number}")
    answer = runner.post("/v1/jobs/orders/t1:rerun", {"scope": "all"}, status=409)
    assert (answer["code"], answer["limit"]) == ("limit-reached", "jobs")
    job = runner.job()
    assert (job["state"], job["run"]) == ("SUSPENDED", 1)
    runner.post("/v1/jobs/orders/t1:resume")
    assert runner.run()["state"] == "SUCCESS"
