"""Limits of applications hold under concurrency and crashes, and what ends is released once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError

from shardmill.aws.clock import new_id, now_ms
from shardmill.engine import definitions
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.control import delete
from shardmill.engine.jobs.submit import submit
from shardmill.engine.mill import Mill, mill
from shardmill.engine.repair import repair
from shardmill.engine.running import kill
from shardmill.engine.schedules import manage
from shardmill.engine.tick import tick
from shardmill.model.access.limits import Limits
from shardmill.model.actor import Actor
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults, How
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Callers
from support.scenarios.application_use import live, used
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.schedule_clock import ScheduleClock

MOST = Limits(definitions=3, jobs=3, tasks=20, schedules=2, bytes=1_000)
ONE_TASK = {"stepName": "a", "type": "noop"}
_names = (f"app{number}" for number in count())


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    parameters = {f"Application{name.capitalize()}": str(most) for name, most in MOST._asdict().items()}
    with moto_cloud(parameters=parameters) as started:
        yield started


@pytest.fixture
def app(runner: JobRunner) -> Iterator[str]:
    """An application that no other test uses; its Jobs are killed after the test."""
    name = next(_names)
    yield name
    for job in list(runner.mill.jobs.live()):
        if job.app_name == name:
            runner.post(f"/v1/jobs/{job.job_name}/{job.trigger}:kill")


def define(runner: JobRunner, app: str, *steps: dict[str, Any], name: str = "", **job: Any) -> str:
    """Define a Job of an application; return its name."""
    name = name or f"{app}-job"
    runner.define(*(steps or (ONE_TASK,)), name=name, appName=app, **job)
    return name


def rejected(answer: Any, kind: str) -> str:
    assert (answer.status, answer.json["code"], answer.json["limit"]) == (409, "limit-reached", kind), answer
    assert answer.json["most"] == getattr(MOST, kind)
    return str(answer.json["detail"])


def post(runner: JobRunner, name: str, trigger: str) -> Any:
    return runner.cloud.http("POST", "/v1/jobs", {"jobName": name, "trigger": trigger})


def test_the_definitions_of_an_application_are_limited(runner: JobRunner, app: str) -> None:
    for number in range(3):
        define(runner, app, name=f"{app}-{number}")
    define(runner, app, name=f"{app}-0", description="another version")
    fourth = {"steps": [ONE_TASK], "appName": app}
    detail = rejected(runner.cloud.http("PUT", f"/v1/definitions/{app}-3", fourth), "definitions")
    assert detail == (
        f"the application '{app}' may have at most 3 definitions; it has 3; delete a definition, "
        "or ask the operator to raise ApplicationDefinitions"
    )
    assert runner.cloud.http("GET", f"/v1/definitions/{app}-3").status == 404
    define(runner, f"{app}-other", name=f"{app}-3")
    moved = runner.cloud.http("PUT", f"/v1/definitions/{app}-3", fourth)
    rejected(moved, "definitions")
    assert used(runner.cloud, f"{app}-other") == {"definitions": 1}
    assert runner.cloud.http("DELETE", f"/v1/definitions/{app}-1").status == 204
    define(runner, app, name=f"{app}-3")
    assert used(runner.cloud, app) == {"definitions": 3}
    assert used(runner.cloud, f"{app}-other") == {}


def test_the_live_jobs_of_an_application_are_limited(runner: JobRunner, app: str) -> None:
    name = define(runner, app)
    for number in range(3):
        runner.submit(f"t{number}", name)
    assert runner.submit("t0", name)["trigger"] == "t0"  # the same again
    rejected(post(runner, name, "t3"), "jobs")
    assert runner.cloud.http("GET", f"/v1/jobs/{name}/t3").status == 404
    for _ in range(2):
        runner.cloud.http("POST", f"/v1/jobs/{name}/t0:kill")
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 2, "tasks": 2}
    assert post(runner, name, "t3").status == 202
    rejected(post(runner, name, "t4"), "jobs")
    for full in ("false", "true"):
        assert runner.cloud.http("DELETE", f"/v1/jobs/{name}/t3?full={full}").status in (200, 202, 204, 404)
        assert used(runner.cloud, app) == {"definitions": 1, "jobs": 2, "tasks": 2}
    assert runner.run(trigger="t1", name=name)["state"] == "SUCCESS"
    runner.run(trigger="t2", name=name)
    assert used(runner.cloud, app) == {"definitions": 1}
    runner.tick(minutes=5)
    assert used(runner.cloud, app) == {"definitions": 1}


def test_concurrent_submits_never_exceed_a_limit(runner: JobRunner, app: str) -> None:
    name = define(runner, app)

    def one(number: int) -> str:
        request = {"jobName": name, "trigger": f"t{number}"}
        try:
            return submit(mill(), request, Actor("me"), now=now_ms(), new_id=new_id).job.trigger
        except LimitReached:
            return ""

    with Faults(), ThreadPoolExecutor(6) as pool:
        made = list(filter(None, pool.map(one, range(12))))
    assert len(made) == 3 == live(runner.cloud, app)
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 3, "tasks": 3}
    for trigger in made:
        runner.run(trigger=trigger, name=name)
    assert used(runner.cloud, app) == {"definitions": 1}


@pytest.mark.parametrize("how", ["before", "after", "repeat", "crash"])
def test_a_failing_submit_counts_once_or_not_at_all(runner: JobRunner, app: str, how: How) -> None:
    name = define(runner, app)
    with Faults() as faults:
        faults.fail(service="dynamodb", operation="TransactWriteItems", how=how)
        try:
            post(runner, name, "t1")
        except ProcessKilled:
            assert how == "crash"
    counted = used(runner.cloud, app).get("jobs", 0)
    assert counted == live(runner.cloud, app)
    runner.submit("t1", name)
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 1, "tasks": 1}


@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_an_interrupted_end_is_released_once(runner: JobRunner, app: str, how: How) -> None:
    """Each call of a kill fails in turn; the tick completes the end."""
    name, mill = define(runner, app), runner.mill
    for nth in count(1):
        made = submit(
            mill, {"jobName": name, "trigger": f"t{nth}"}, Actor("me"), now=now_ms(), new_id=new_id
        ).job
        with Faults() as faults:
            fault = faults.fail(how=how, nth=nth)
            with suppress(ProcessKilled, BotoCoreError):
                kill.kill(mill, made, "me", "", now_ms())
            if not fault.hits:
                break
        for minutes in (2, 4):
            repair(mill, made.id, now_ms() + minutes * 60_000, new_id)
        present = mill.jobs.get(made.id)
        assert present is not None
        if not present.state.ended:
            assert used(runner.cloud, app) == {"definitions": 1, "jobs": 1, "tasks": 1}
            kill.kill(mill, present, "me", "", now_ms())
        assert used(runner.cloud, app) == {"definitions": 1}
    assert nth > 4
    assert used(runner.cloud, app) == {"definitions": 1}


def test_a_rerun_counts_again_and_is_released_again(runner: JobRunner, app: str) -> None:
    name = define(runner, app, {"stepName": "a", "type": "noop", "sharding": 5})
    runner.submit("t1", name)
    assert runner.run(fail_shards(1), "t1", name)["state"] == "FAILED"
    assert used(runner.cloud, app) == {"definitions": 1}
    assert runner.cloud.http("PUT", "/v1/groups/idle", {"kind": "pull"}).status in (200, 201)
    idle = define(runner, app, name=f"{app}-idle", workerGroup="idle")
    for number in (2, 3, 4):
        runner.submit(f"t{number}", idle)
    path = f"/v1/jobs/{name}/t1:rerun"
    rejected(runner.cloud.http("POST", path, {}), "jobs")
    assert (runner.job("t1", name)["state"], runner.job("t1", name)["run"]) == ("FAILED", 1)
    runner.post(f"/v1/jobs/{idle}/t2:kill")
    runner.post(path, {})
    assert used(runner.cloud, app) == {"definitions": 2, "jobs": 3, "tasks": 7}
    assert runner.run(trigger="t1", name=name)["state"] == "SUCCESS"
    assert used(runner.cloud, app) == {"definitions": 2, "jobs": 2, "tasks": 2}


def test_a_suspended_job_counts_until_it_ends(runner: JobRunner, app: str) -> None:
    name = define(runner, app, onFailure="suspend")
    runner.submit("t1", name)
    assert runner.run(fail_shards(0), "t1", name)["state"] == "SUSPENDED"
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 1, "tasks": 1}
    runner.post(f"/v1/jobs/{name}/t1:rerun", {})
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 1, "tasks": 1}
    assert runner.run(trigger="t1", name=name)["state"] == "SUCCESS"
    assert used(runner.cloud, app) == {"definitions": 1}


def test_the_tasks_of_live_jobs_are_limited(runner: JobRunner, app: str) -> None:
    name = define(runner, app, {"stepName": "a", "type": "noop", "sharding": 12})
    runner.submit("t1", name)
    detail = rejected(post(runner, name, "t2"), "tasks")
    assert "it has 12; this needs 12 more; wait until Jobs end, or kill some" in detail
    big = define(runner, app, {"stepName": "a", "type": "noop", "sharding": 21}, name=f"{app}-big")
    runner.post(f"/v1/jobs/{name}/t1:kill")
    rejected(post(runner, big, "t1"), "tasks")
    assert used(runner.cloud, app) == {"definitions": 2}


def test_tasks_whose_number_is_known_late_are_counted_when_the_step_opens(
    runner: JobRunner, app: str
) -> None:
    step = {"stepName": "a", "type": "noop", "sharding": "{{ params.n }}"}
    name = define(runner, app, step, params={"n": 3})
    runner.submit("t1", name)
    runner.cloud.run_until(lambda: runner.row(0, "t1", name).opened)
    assert used(runner.cloud, app) == {"definitions": 1, "jobs": 1, "tasks": 3}
    runner.submit("t2", name, params={"n": 18})
    runner.cloud.run_until(lambda: runner.ended("t2", name), 30)  # while t1 is open
    failed = runner.job("t2", name)
    assert failed["state"] == "FAILED"
    assert "may have at most 20 tasks of live Jobs; this needs 18 more" in failed["notes"]
    runner.run(trigger="t1", name=name)
    assert used(runner.cloud, app) == {"definitions": 1}


def test_the_schedules_of_an_application_are_limited(runner: JobRunner, app: str) -> None:
    name = define(runner, app)

    def save(schedule: str) -> Any:
        return runner.cloud.http(
            "PUT", f"/v1/schedules/{name}/{schedule}", {"cron": "0 4 * * *", "status": 0}
        )

    for schedule in ("s1", "s2", "s1"):
        assert save(schedule).status in (200, 201)
    rejected(save("s3"), "schedules")
    assert runner.cloud.http("GET", f"/v1/schedules/{name}/s3").status == 404
    assert runner.cloud.http("DELETE", f"/v1/schedules/{name}/s1").status == 204
    assert save("s3").status == 201
    rejected(save("s1"), "schedules")
    assert used(runner.cloud, app) == {"definitions": 1, "schedules": 2}


def test_files_of_ended_jobs_count_until_they_are_deleted(
    runner: JobRunner, file_worker: FileWorker, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = define(runner, app, {"stepName": "a", "outputs": [{"name": "out"}], "content": "x"})
    runner.submit("t1", name)
    [lease] = runner.take(1)
    file_worker.end(lease, {"out": b"x" * 1_200})
    runner.run(trigger="t1", name=name)
    assert used(runner.cloud, app) == {"definitions": 1, "bytes": 1_200}
    detail = rejected(post(runner, name, "t2"), "bytes")
    assert "may have at most 1000 bytes of files; it has 1200; delete ended Jobs with their files" in detail
    monkeypatch.setattr(delete, "PURGE_GRACE_MS", 0)
    runner.cloud.http("DELETE", f"/v1/jobs/{name}/t1?full=true")
    assert used(runner.cloud, app) == {"definitions": 1}
    assert post(runner, name, "t2").status == 202
    runner.run(trigger="t2", name=name, outcome_of=fail_shards(0))


def test_a_firing_beyond_a_limit_is_recorded_and_a_backfill_waits(
    runner: JobRunner, schedules: ScheduleClock, app: str
) -> None:
    name = define(runner, app)
    for number in range(3):
        runner.submit(f"t{number}", name)
    schedules.save("2026-01-05 00:00", name, cron="0 1 * * *")
    schedules.run("2026-01-05 00:59", "2026-01-05 01:02")
    [entry] = runner.cloud.http("GET", f"/v1/schedules/{name}/s").json["history"]
    assert entry["outcome"] == "refused"
    assert "may have at most 3 live Jobs" in entry["reason"]
    assert "it has" not in entry["reason"]
    body = {"from": "2026-01-01", "to": "2026-01-04"}
    backfill = runner.post(f"/v1/schedules/{name}/s:backfill", body, status=202)
    assert (backfill["state"], backfill["waiting"], backfill["failed"]) == ("RUNNING", 3, 0)
    assert backfill["notes"].startswith("waits until there is room: the application")
    for number in range(3):
        runner.post(f"/v1/jobs/{name}/t{number}:kill")
    runner.tick(minutes=2)
    later = runner.cloud.http("GET", f"/v1/schedules/{name}/s/backfills/1").json
    assert (later["running"], later["notes"]) == (1, "")


def test_items_from_before_the_limits_are_counted_once(runner: JobRunner, app: str) -> None:
    before = Mill.connect(mill().settings._replace(limits=Limits()))
    document = {"steps": [{**ONE_TASK, "sharding": 2}], "appName": app}
    for number in range(4):
        definitions.save(before, f"{app}-{number}", document, Actor("me"), now=now_ms())
    manage.save(before, f"{app}-0", "s", {"cron": "0 4 * * *", "status": 0}, Actor("me"), now=now_ms())
    for number in range(4):
        request = {"jobName": f"{app}-0", "trigger": f"t{number}"}
        submit(before, request, Actor("me"), now=now_ms(), new_id=new_id)
    assert used(runner.cloud, app) == {}
    day = 86_400_000
    for later in (2 * day, 2 * day + 1, 4 * day):
        tick(mill(), now_ms() + later, new_id)
        assert used(runner.cloud, app) == {"definitions": 4, "jobs": 4, "tasks": 8, "schedules": 1}
    rejected(post(runner, f"{app}-0", "t9"), "jobs")
    runner.post(f"/v1/jobs/{app}-0/t0:kill")
    assert runner.cloud.http("DELETE", f"/v1/schedules/{app}-0/s").status == 204
    assert runner.cloud.http("DELETE", f"/v1/definitions/{app}-3").status == 204
    assert used(runner.cloud, app) == {"definitions": 3, "jobs": 3, "tasks": 6}


def test_the_use_is_shown_to_readers_of_the_application(runner: JobRunner, app: str) -> None:
    name = define(runner, app)
    for number in range(3):
        runner.submit(f"t{number}", name)
    callers = Callers(runner.cloud)
    path = f"/v1/limits?application={app}"
    shown = {"application": app, "definitions": {"limit": 3, "used": 1}, "jobs": {"limit": 3, "used": 3}}
    whole: list[Any] = ["read", {"scope": "read", "applications": [app]}]
    for scope in whole:
        found = callers.with_scopes(scope)("GET", path)
        assert found.json == shown | {
            "tasks": {"limit": 20, "used": 3},
            "schedules": {"limit": 2, "used": 0},
            "bytes": {"limit": 1_000, "used": 0},
        }
    part = callers.with_scopes({"scope": "read", "definitions": [name]}, "submit")
    hidden = part("GET", path).json
    assert {hidden[kind]["used"] for kind in Limits._fields} == {None}
    assert hidden == part("GET", "/v1/limits?application=none").json | {"application": app}
    error = part("POST", "/v1/jobs", {"jobName": name, "trigger": "t3"})
    assert "it has" not in rejected(error, "jobs")
    assert "used" not in error.json
