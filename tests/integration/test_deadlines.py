"""Deadlines: noticed by the first tick after them in any state, marked once, told of at least once."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from shardmill.engine.control.force import force_job
from shardmill.engine.running.finish import JOB_ENDED
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from support.diary import Diary
from support.faults import How, everywhere_once
from support.lambda_server import FunctionError
from support.moto_cloud import moto_cloud
from support.play import Play

STEP = {"stepName": "a"}


def queued(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90)
    play.submit()
    play.cloud.run_until(lambda: play.job()["state"] == "QUEUED")


def running(play: Play) -> None:
    queued(play)
    play.take(1)


def suspended(play: Play) -> None:
    queued(play)
    assert play.cloud.http("POST", "/v1/jobs/play/t1:suspend").status == 200


def suspended_by_failure(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90, onFailure="suspend")
    play.submit()
    play.run(lambda _: "failed-permanent")


def waiting_for_a_parent(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90, dependencies=["nobody"])
    play.submit(dataTime="2026-01-01T00:00:00Z")


def waiting_for_a_slot(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90, concurrency=1)
    play.submit("first")
    play.cloud.run_until(lambda: play.job("first")["state"] == "QUEUED")
    play.submit()
    play.cloud.run_until(lambda: play.job()["state"] == "WAITING")


STATES = [queued, running, suspended, suspended_by_failure, waiting_for_a_parent, waiting_for_a_slot]


def late_events(play: Play, trigger: str = "t1") -> list[dict[str, Any]]:
    events = [event["detail"] for event in play.cloud.published() if event["detail-type"] == "Job Late"]
    return [detail for detail in events if detail["trigger"] == trigger]


def why(play: Play) -> str:
    return " ".join(play.cloud.http("GET", "/v1/jobs/play/t1:explain").json["sentences"])


def marks(play: Play) -> list[dict[str, Any]]:
    items = play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]
    return [each for each in items if each["reason"].startswith("late: ")]


@pytest.mark.parametrize("put", STATES, ids=lambda put: put.__name__)
def test_the_first_tick_after_it_notices(play: Play, put: Callable[[Play], None]) -> None:
    put(play)
    before = play.job()
    created = datetime.fromisoformat(before["createTime"])
    assert datetime.fromisoformat(before["deadline"]) == created + timedelta(seconds=90)
    play.cloud.tick(created + timedelta(seconds=89))
    assert play.job()["late"] is False
    assert "Its deadline is 20" in why(play)
    play.cloud.tick(created + timedelta(seconds=91))
    job = play.job()
    assert (job["late"], job["state"]) == (True, before["state"])
    assert "It is late" in why(play)
    [event] = late_events(play)
    assert (event["jobId"], event["state"]) == (job["id"], job["state"])
    assert datetime.fromisoformat(event["deadline"]) == datetime.fromisoformat(job["deadline"])
    [mark] = marks(play)
    assert (mark["actor"], mark["state"]) == ("shardmill", job["state"])
    play.cloud.tick(created + timedelta(minutes=5))
    assert (late_events(play), len(marks(play))) == ([], 1)


@pytest.mark.parametrize("put", STATES, ids=lambda put: put.__name__)
def test_kill_ends_it(play: Play, put: Callable[[Play], None]) -> None:
    define = play.define

    def and_kill(*steps: dict[str, Any], **job: Any) -> None:
        define(*steps, **job, onDeadline="kill")

    play.define = and_kill  # type: ignore[method-assign]
    put(play)
    play.tick(3)
    job = play.job()
    assert (job["state"], job["late"]) == ("KILLED", True)
    assert job["notes"] == f"killed by shardmill: its deadline, {_iso(job['deadline'])}, has passed"
    assert {step["state"] for step in job["steps"]} <= {"KILLED", "FAILED"}
    kinds = [e["detail-type"] for e in play.cloud.published() if e["detail"]["trigger"] == "t1"]
    assert [kind for kind in kinds if kind in ("Job Late", JOB_ENDED)] == ["Job Late", JOB_ENDED]


def _iso(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def test_a_job_in_time_is_not_late(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90, onDeadline="kill")
    play.submit()
    play.run()
    play.tick(3)
    job = play.job()
    assert (job["state"], job["late"]) == ("SUCCESS", False)
    assert (late_events(play), marks(play)) == ([], [])
    assert "deadline" not in why(play)
    assert next(play.mill.deadlines.due(10**14, limit=1), None) is None


@pytest.mark.parametrize(("after", "late"), [(0, False), (1, True)])
def test_an_end_between_the_deadline_and_the_tick(play: Play, after: int, late: bool) -> None:
    waiting_for_a_parent(play)
    job = play.mill.jobs.find("play", "t1")
    assert job is not None
    assert job.deadline is not None
    force_job(play.mill, job, JobState.SUCCESS, Actor("somebody"), "", job.deadline + after)
    play.tick(3)
    assert play.job()["late"] is late
    assert len(late_events(play)) == len(marks(play)) == late


def test_a_rerun_counts_anew(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90, onDeadline="kill")
    first = play.submit()
    play.tick(3)
    assert play.job()["state"] == "KILLED"
    assert play.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    again = play.job()
    assert (again["run"], again["late"]) == (2, False)
    assert again["deadline"] > first["deadline"]
    play.tick(1)
    assert play.job()["late"] is False
    play.cloud.published()
    play.tick(3)
    assert (play.job()["state"], play.job()["late"]) == ("KILLED", True)
    assert [event["run"] for event in late_events(play)] == [2]


def test_a_job_that_is_gone_has_no_deadline(play: Play) -> None:
    play.define(STEP, deadlineSeconds=90)
    play.submit()
    play.run()
    assert play.cloud.http("DELETE", "/v1/jobs/play/t1?full=true").status == 204
    assert play.tick(3)["failed"] == 0
    assert next(play.mill.deadlines.due(10**14, limit=1), None) is None


@pytest.mark.parametrize("how", ["before", "crash"])
def test_whichever_call_fails_it_is_told_of_and_killed(how: How) -> None:
    for run in everywhere_once([how], only=lambda call: call.operation != "Query"):
        with run, moto_cloud() as cloud:
            play = Play(cloud)
            play.define(STEP, deadlineSeconds=90, onDeadline="kill", dependencies=["nobody"])
            play.submit(dataTime="2026-01-01T00:00:00Z")
            with run.armed(), suppress(FunctionError):  # a tick that dies
                play.tick(2)
            for minutes in (3, 4, 5):
                play.tick(minutes)
            job = play.job()
            assert (job["state"], job["late"], len(marks(play))) == ("KILLED", True, 1)
            kinds = [e["detail-type"] for e in cloud.published()]
            assert {"Job Late", JOB_ENDED} <= set(kinds)
            assert next(play.mill.deadlines.due(10**14, limit=1), None) is None


@pytest.fixture
def diary(play: Play) -> Diary:
    return Diary(play)


def test_a_scheduled_job_counts_from_its_data_time(diary: Diary) -> None:
    diary.play.define(STEP, deadlineSeconds=600)
    diary.save("2026-01-01 00:00", cron="0 4 * * *", catchUp="latest")
    diary.tick("2026-01-01 04:07")
    assert diary.job("2026-01-01 04:00").late is False
    assert diary.tick("2026-01-01 04:10")["late"] == 1
    assert diary.job("2026-01-01 04:00").late is True


def test_a_time_of_day_is_of_the_schedule_s_zone(diary: Diary) -> None:
    diary.play.define(STEP, deadlineTime="06:30")
    diary.save("2026-01-01 00:00", cron="0 4 * * *", timezone="Asia/Tokyo")
    diary.tick("2026-01-01 19:00")
    assert diary.tick("2026-01-01 21:29")["late"] == 0
    assert diary.tick("2026-01-01 21:30")["late"] == 1


def test_the_earlier_of_both_counts(diary: Diary) -> None:
    diary.play.define(STEP, deadlineTime="06:30", deadlineSeconds=3600)
    diary.save("2026-01-01 00:00", cron="0 4,6 * * *", overlap="allow")
    diary.tick("2026-01-01 04:00")
    diary.tick("2026-01-01 06:00")
    job = diary.job("2026-01-01 06:00")
    assert job.deadline == job.moment + 30 * 60_000
    assert diary.job("2026-01-01 04:00").deadline == diary.job("2026-01-01 04:00").moment + 3600_000


def test_what_people_fire_or_fill_in_counts_from_then(diary: Diary) -> None:
    play = diary.play
    play.define(STEP, deadlineSeconds=600, deadlineTime="06:30")
    diary.save("2026-01-01 00:00", cron="0 4 * * *")
    answer = play.cloud.http("POST", "/v1/schedules/play/s:fire", {"dataTime": "2025-01-01T04:00:00Z"})
    job = answer.json
    created = datetime.fromisoformat(job["createTime"])
    assert created < datetime.fromisoformat(job["deadline"]) <= created + timedelta(seconds=600)


def test_a_time_of_day_says_nothing_of_a_job_without_a_schedule(play: Play) -> None:
    play.define(STEP, deadlineTime="06:30")
    play.submit()
    assert play.job()["deadline"] is None
    assert next(play.mill.deadlines.due(10**14, limit=1), None) is None
