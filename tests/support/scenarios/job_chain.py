"""Define parents and children, run them to their end, and read what a child waits for."""

from __future__ import annotations

from typing import Any

from shardmill.store.rows import JobRow
from support.scenarios.schedule_clock import ScheduleClock

A = {"stepName": "a"}


def define(schedules: ScheduleClock, name: str, *parents: Any, **job: Any) -> None:
    schedules.runner.define(A, name=name, dependencies=list(parents), **job)


def finish(
    schedules: ScheduleClock, name: str, trigger: str = "t1", *, outcome_of: Any = None, **request: Any
) -> dict[str, Any]:
    """Run a Job to its end and deliver the event."""
    schedules.runner.submit(trigger, name, **request)
    job = schedules.runner.run(*([outcome_of] if outcome_of else []), trigger=trigger, name=name)
    schedules.runner.cloud.deliver_job_ends()
    return job


def listed(schedules: ScheduleClock, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = schedules.runner.cloud.http("GET", f"/v1/jobs?jobName={name}").json["items"]
    return items


def times(schedules: ScheduleClock, name: str) -> list[str]:
    """The dataTimes of the Jobs of a definition, without the year, oldest first."""
    return [time.removeprefix("2026-") for time in schedules.jobs(name)]


def waits_for(schedules: ScheduleClock, name: str, trigger: str) -> list[tuple[str, str | None, int]]:
    response = schedules.runner.cloud.http("GET", f"/v1/jobs/{name}/{trigger}/dependencies")
    assert response.status == 200, response
    return [(each["preJob"], each["preTrigger"], each["preStatus"]) for each in response.json["items"]]


def row(schedules: ScheduleClock, name: str, trigger: str) -> JobRow:
    found = schedules.mill.jobs.find(name, trigger)
    assert found is not None
    return found
