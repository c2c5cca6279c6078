"""Overlap rules of schedules: queue, skip and replace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine.errors import Overlap
from shardmill.engine.jobs import plan
from shardmill.engine.schedules import fire, manage
from shardmill.model.actor import Actor
from shardmill.model.time.schedule import FireRequest
from support.aws_rules.faults import Faults
from support.scenarios.races.interrupter import Interrupter, Interruption
from support.scenarios.schedule_clock import ScheduleClock, ms

A = {"stepName": "a"}


def define(schedules: ScheduleClock, name: str, *parents: Any, **job: Any) -> None:
    schedules.runner.define(A, name=name, dependencies=list(parents), **job)


def finish(schedules: ScheduleClock, name: str, trigger: str = "t1", **request: Any) -> None:
    schedules.runner.submit(trigger, name, **request)
    schedules.runner.run(trigger=trigger, name=name)
    schedules.runner.cloud.deliver_job_ends()


def test_a_job_is_replaced_although_its_first_replacement_was_killed_while_waiting(
    schedules: ScheduleClock,
) -> None:
    define(schedules, "parent")
    define(schedules, "orders", "parent")
    schedules.save("2026-01-01 00:00", cron="0 1-3 * * *", overlap="replace")
    finish(schedules, "parent", "p1", dataTime="2026-01-01T01:00:00Z")
    finish(schedules, "parent", "p3", dataTime="2026-01-01T03:00:00Z")
    for hour in (1, 2, 3):
        schedules.tick(f"2026-01-01 0{hour}:00")
    schedules.runner.cloud.run_until(
        lambda: [schedules.state(f"2026-01-01 0{h}:00") for h in (1, 2, 3)] == ["KILLED", "KILLED", "QUEUED"]
    )


def test_queued_jobs_start_in_order_when_planned_in_reverse(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "orders")
    started: list[tuple[str, int]] = []
    with monkeypatch.context() as patch:
        machines = type(schedules.mill.machines)
        patch.setattr(machines, "start_job", lambda _, job_id, run: started.append((job_id, run)))
        schedules.save("2026-01-01 00:00", cron="0 1-3 * * *", overlap="queue", catchUp="all")
        schedules.tick("2026-01-01 03:00")
    for job_id, run in reversed(started):
        plan.plan(schedules.mill, job_id, run, ms("2026-01-01 03:01"))
    assert [schedules.state(f"2026-01-01 0{hour}:00") for hour in (1, 2, 3)] == [
        "QUEUED",
        "WAITING",
        "WAITING",
    ]
    schedules.runner.cloud.http("POST", "/v1/jobs/orders/20260101T020000Z-s:kill")
    assert schedules.state("2026-01-01 03:00") == "WAITING"
    assert schedules.end("2026-01-01 01:00")["state"] == "SUCCESS"
    assert schedules.end("2026-01-01 03:00")["state"] == "SUCCESS"


def test_a_queued_job_waits_for_a_job_started_before_the_overlap_changed(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="0 * * * *")
    schedules.tick("2026-01-01 01:00")
    schedules.save("2026-01-01 01:30", cron="0 * * * *", overlap="queue")
    schedules.tick("2026-01-01 02:00")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 02:00") == "WAITING")
    schedules.end("2026-01-01 01:00")
    assert schedules.end("2026-01-01 02:00")["state"] == "SUCCESS"


def fire_manually(schedules: ScheduleClock, day: int, schedule_id: str = "s") -> bool:
    """Call the engine: a function's process handles one request at a time, and the API relies on it."""
    row = manage.read(schedules.mill, "orders", schedule_id)
    request = FireRequest.model_validate({"dataTime": f"2026-05-0{day}T00:00:00Z"})
    try:
        return fire.fire_now(schedules.mill, row, request, Actor("me"), ms("2026-05-05 00:00"), new_id)[1]
    except Overlap:
        return False


def test_concurrent_manual_fires_with_skip_start_one_job(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="0 0 1 1 *", overlap="skip")
    with ThreadPoolExecutor(4) as pool:
        started = pool.map(lambda day: fire_manually(schedules, day), range(1, 5))
        assert sorted(started) == [False, False, False, True]
    assert len(schedules.jobs()) == 1


@pytest.mark.parametrize("by_tick", [False, True])
def test_a_fire_between_any_two_calls_of_another_starts_no_second_job(
    schedules: ScheduleClock, faults: Faults, by_tick: bool
) -> None:
    """Skip: a manual fire is interrupted before each of its AWS calls by another, or by the tick."""
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    define(schedules, "orders")
    for nth in count(1):
        schedule_id, started = f"s{nth}", []
        schedules.save("2026-01-01 00:00", cron="0 1 * * *", overlap="skip", schedule_id=schedule_id)

        def other(schedule_id: str = schedule_id, started: list[bool] = started) -> None:
            if by_tick:
                schedules.tick("2026-01-01 01:00")
            else:
                started.append(fire_manually(schedules, 2, schedule_id))

        interruption = Interruption("before", nth, other)
        first = interrupter.act(lambda each=schedule_id: fire_manually(schedules, 1, each), interruption)
        if not interruption.reached:
            assert nth > 5
            return
        jobs = schedules.runner.cloud.http("GET", "/v1/jobs?limit=1000").json["items"]
        mine = [each for each in jobs if each["trigger"].endswith(f"-{schedule_id}")]
        assert len(mine) == 1, nth
        assert by_tick or sorted([first, *started]) == [False, True]


def test_the_tick_retries_a_failed_start_of_a_replacement(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="0 1,2 * * *", overlap="replace")
    schedules.tick("2026-01-01 01:00")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 01:00") == "QUEUED")
    with Faults() as faults:
        faults.fail("stepfunctions", "StartExecution", how="before")
        assert schedules.tick("2026-01-01 02:00")["fired"] == 1
    schedules.tick("2026-01-01 02:05")
    schedules.runner.cloud.run_until(lambda: schedules.state("2026-01-01 01:00") == "KILLED")
