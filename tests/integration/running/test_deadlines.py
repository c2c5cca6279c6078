"""Deadlines: detected by the next tick in any state, recorded once, published at least once."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from shardmill.engine.control.force import force_job
from shardmill.engine.running.finish import JOB_ENDED
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from support.aws_rules.faults import How, everywhere_once
from support.fakes.lambda_server import FunctionError
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock

STEP = {"stepName": "a"}


def queued(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED")


def running(runner: JobRunner) -> None:
    queued(runner)
    runner.take(1)


def suspended(runner: JobRunner) -> None:
    queued(runner)
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:suspend").status == 200


def suspended_by_failure(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90, onFailure="suspend")
    runner.submit()
    runner.run(lambda _: "failed-permanent")


def waiting_for_a_parent(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90, dependencies=["missing"])
    runner.submit(dataTime="2026-01-01T00:00:00Z")


def waiting_for_a_slot(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90, concurrency=1)
    runner.submit("first")
    runner.cloud.run_until(lambda: runner.job("first")["state"] == "QUEUED")
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "WAITING")


STATES = [queued, running, suspended, suspended_by_failure, waiting_for_a_parent, waiting_for_a_slot]


def late_events(runner: JobRunner, trigger: str = "t1") -> list[dict[str, Any]]:
    events = [event["detail"] for event in runner.cloud.published() if event["detail-type"] == "Job Late"]
    return [detail for detail in events if detail["trigger"] == trigger]


def explain(runner: JobRunner) -> str:
    return " ".join(runner.cloud.http("GET", "/v1/jobs/orders/t1:explain").json["sentences"])


def late_entries(runner: JobRunner) -> list[dict[str, Any]]:
    items = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    return [each for each in items if each["reason"].startswith("late: ")]


@pytest.mark.parametrize("enter_state", STATES, ids=lambda enter_state: enter_state.__name__)
def test_the_first_tick_after_the_deadline_marks_the_job_late(
    runner: JobRunner, enter_state: Callable[[JobRunner], None]
) -> None:
    enter_state(runner)
    before = runner.job()
    created = datetime.fromisoformat(before["createTime"])
    assert datetime.fromisoformat(before["deadline"]) == created + timedelta(seconds=90)
    runner.cloud.tick(created + timedelta(seconds=89))
    assert runner.job()["late"] is False
    assert "Its deadline is 20" in explain(runner)
    runner.cloud.tick(created + timedelta(seconds=91))
    job = runner.job()
    assert (job["late"], job["state"]) == (True, before["state"])
    assert "It is late" in explain(runner)
    [event] = late_events(runner)
    assert (event["jobId"], event["state"]) == (job["id"], job["state"])
    assert datetime.fromisoformat(event["deadline"]) == datetime.fromisoformat(job["deadline"])
    [entry] = late_entries(runner)
    assert (entry["actor"], entry["state"]) == ("shardmill", job["state"])
    runner.cloud.tick(created + timedelta(minutes=5))
    assert (late_events(runner), len(late_entries(runner))) == ([], 1)


@pytest.mark.parametrize("enter_state", STATES, ids=lambda enter_state: enter_state.__name__)
def test_on_deadline_kill_ends_the_job(runner: JobRunner, enter_state: Callable[[JobRunner], None]) -> None:
    define = runner.define

    def define_with_kill(*steps: dict[str, Any], **job: Any) -> None:
        define(*steps, **job, onDeadline="kill")

    runner.define = define_with_kill  # type: ignore[method-assign]
    enter_state(runner)
    runner.tick(3)
    job = runner.job()
    assert (job["state"], job["late"]) == ("KILLED", True)
    assert job["notes"] == f"killed by shardmill: its deadline, {_iso(job['deadline'])}, has passed"
    assert {step["state"] for step in job["steps"]} <= {"KILLED", "FAILED"}
    kinds = [e["detail-type"] for e in runner.cloud.published() if e["detail"]["trigger"] == "t1"]
    assert [kind for kind in kinds if kind in ("Job Late", JOB_ENDED)] == ["Job Late", JOB_ENDED]


def _iso(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def test_a_job_that_ends_before_its_deadline_is_not_late(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90, onDeadline="kill")
    runner.submit()
    runner.run()
    runner.tick(3)
    job = runner.job()
    assert (job["state"], job["late"]) == ("SUCCESS", False)
    assert (late_events(runner), late_entries(runner)) == ([], [])
    assert "deadline" not in explain(runner)
    assert next(runner.mill.deadlines.due(10**14, limit=1), None) is None


@pytest.mark.parametrize(("after", "late"), [(0, False), (1, True)])
def test_a_job_that_ended_before_the_tick_is_late_if_it_ended_after_its_deadline(
    runner: JobRunner, after: int, late: bool
) -> None:
    waiting_for_a_parent(runner)
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    assert job.deadline is not None
    force_job(runner.mill, job, JobState.SUCCESS, Actor("operator"), "", job.deadline + after)
    runner.tick(3)
    assert runner.job()["late"] is late
    assert len(late_events(runner)) == len(late_entries(runner)) == late


def test_a_rerun_has_its_own_deadline(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90, onDeadline="kill")
    first = runner.submit()
    runner.tick(3)
    assert runner.job()["state"] == "KILLED"
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    second = runner.job()
    assert (second["run"], second["late"]) == (2, False)
    assert second["deadline"] > first["deadline"]
    runner.tick(1)
    assert runner.job()["late"] is False
    runner.cloud.published()
    runner.tick(3)
    assert (runner.job()["state"], runner.job()["late"]) == ("KILLED", True)
    assert [event["run"] for event in late_events(runner)] == [2]


def test_a_deleted_job_has_no_deadline(runner: JobRunner) -> None:
    runner.define(STEP, deadlineSeconds=90)
    runner.submit()
    runner.run()
    assert runner.cloud.http("DELETE", "/v1/jobs/orders/t1?full=true").status == 204
    assert runner.tick(3)["failed"] == 0
    assert next(runner.mill.deadlines.due(10**14, limit=1), None) is None


@pytest.mark.parametrize("how", ["before", "crash"])
def test_an_expired_deadline_is_handled_when_a_call_fails(how: How) -> None:
    for run in everywhere_once([how], only=lambda call: call.operation != "Query"):
        with run, moto_cloud() as cloud:
            runner = JobRunner(cloud)
            runner.define(STEP, deadlineSeconds=90, onDeadline="kill", dependencies=["missing"])
            runner.submit(dataTime="2026-01-01T00:00:00Z")
            with run.armed(), suppress(FunctionError):  # the tick may fail
                runner.tick(2)
            for minutes in (3, 4, 5):
                runner.tick(minutes)
            job = runner.job()
            assert (job["state"], job["late"], len(late_entries(runner))) == ("KILLED", True, 1)
            kinds = [e["detail-type"] for e in cloud.published()]
            assert {"Job Late", JOB_ENDED} <= set(kinds)
            assert next(runner.mill.deadlines.due(10**14, limit=1), None) is None


def test_the_deadline_of_a_scheduled_job_counts_from_its_data_time(schedules: ScheduleClock) -> None:
    schedules.runner.define(STEP, deadlineSeconds=600)
    schedules.save("2026-01-01 00:00", cron="0 4 * * *", catchUp="latest")
    schedules.tick("2026-01-01 04:07")
    assert schedules.job("2026-01-01 04:00").late is False
    assert schedules.tick("2026-01-01 04:10")["late"] == 1
    assert schedules.job("2026-01-01 04:00").late is True


def test_a_deadline_time_is_in_the_time_zone_of_the_schedule(schedules: ScheduleClock) -> None:
    schedules.runner.define(STEP, deadlineTime="06:30")
    schedules.save("2026-01-01 00:00", cron="0 4 * * *", timezone="Asia/Tokyo")
    schedules.tick("2026-01-01 19:00")
    assert schedules.tick("2026-01-01 21:29")["late"] == 0
    assert schedules.tick("2026-01-01 21:30")["late"] == 1


def test_the_earlier_of_two_deadlines_applies(schedules: ScheduleClock) -> None:
    schedules.runner.define(STEP, deadlineTime="06:30", deadlineSeconds=3600)
    schedules.save("2026-01-01 00:00", cron="0 4,6 * * *", overlap="allow")
    schedules.tick("2026-01-01 04:00")
    schedules.tick("2026-01-01 06:00")
    job = schedules.job("2026-01-01 06:00")
    assert job.deadline == job.moment + 30 * 60_000
    assert schedules.job("2026-01-01 04:00").deadline == schedules.job("2026-01-01 04:00").moment + 3600_000


def test_deadlines_of_manual_and_backfilled_jobs_count_from_their_start(schedules: ScheduleClock) -> None:
    runner = schedules.runner
    runner.define(STEP, deadlineSeconds=600, deadlineTime="06:30")
    schedules.save("2026-01-01 00:00", cron="0 4 * * *")
    response = runner.cloud.http("POST", "/v1/schedules/orders/s:fire", {"dataTime": "2025-01-01T04:00:00Z"})
    job = response.json
    created = datetime.fromisoformat(job["createTime"])
    assert created < datetime.fromisoformat(job["deadline"]) <= created + timedelta(seconds=600)


def test_a_deadline_time_is_ignored_for_a_job_without_a_schedule(runner: JobRunner) -> None:
    runner.define(STEP, deadlineTime="06:30")
    runner.submit()
    assert runner.job()["deadline"] is None
    assert next(runner.mill.deadlines.due(10**14, limit=1), None) is None
