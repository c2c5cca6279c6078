"""Suspension of a definition, a worker group or all groups."""

from __future__ import annotations

from typing import Any

import pytest

from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock
from support.scenarios.worker_api import register


def test_a_suspended_definition_starts_no_new_jobs_and_running_jobs_continue(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit("t1")
    for _ in range(2):  # repeating it changes nothing
        result = runner.post("/v1/definitions/orders:suspend", {"reason": "a bad source"})
        assert result["suspended"].endswith(": a bad source")
    rejected = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t2"})
    assert (rejected.status, rejected.json["code"]) == (409, "definition-suspended")
    assert "a bad source" in rejected.json["detail"]
    repeated = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t1"})
    assert repeated.status == 200
    assert runner.run()["state"] == "SUCCESS"
    runner.define({"stepName": "a"})  # a new version stays suspended
    [listed] = runner.cloud.http("GET", "/v1/definitions").json["items"]
    assert listed["suspended"]
    assert runner.cloud.http("GET", "/v1/definitions/orders").json["suspended"]
    assert runner.post("/v1/definitions/orders:resume")["suspended"] is None
    runner.submit("t2")
    assert runner.run(trigger="t2")["state"] == "SUCCESS"


def test_an_unknown_definition_cannot_be_suspended_or_resumed(runner: JobRunner) -> None:
    assert runner.post("/v1/definitions/nope:suspend", status=404)["code"] == "definition-not-found"
    runner.define({"stepName": "a"})
    runner.post("/v1/definitions/orders:suspend")
    assert runner.cloud.http("DELETE", "/v1/definitions/orders").status == 204
    assert runner.post("/v1/definitions/orders:resume", status=404)["code"] == "definition-not-found"
    runner.define({"stepName": "a"})
    runner.submit()  # a recreated definition is not suspended


@pytest.mark.parametrize(
    ("catch_up", "outcomes"),
    [
        ("none", ["missed"]),
        ("latest", ["missed", "started"]),
        ("all", ["started", "started", "started"]),
    ],
)
def test_schedules_catch_up_when_their_definition_is_resumed(
    runner: JobRunner, catch_up: str, outcomes: list[str]
) -> None:
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    schedules.save("2026-01-01 00:00", cron="0 * * * *", catchUp=catch_up)
    runner.post("/v1/definitions/orders:suspend")
    for hour in ("01", "02", "03"):
        assert schedules.tick(f"2026-01-01 {hour}:00")["fired"] == 0
    assert schedules.outcomes() == []
    runner.post("/v1/definitions/orders:resume")
    schedules.tick("2026-01-01 03:30")
    assert [outcome for _, outcome in schedules.outcomes()] == outcomes


def test_resuming_a_child_definition_starts_the_child_of_an_ended_parent(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.define({"stepName": "a"}, name="child", dependencies=[{"jobName": "orders"}])
    runner.post("/v1/definitions/child:suspend")
    runner.submit(dataTime="2026-01-01T00:00:00Z")
    runner.run()
    runner.tick(5)
    assert runner.cloud.http("GET", "/v1/jobs?jobName=child").json["items"] == []
    runner.post("/v1/definitions/child:resume")
    runner.tick(10)
    [child] = runner.cloud.http("GET", "/v1/jobs?jobName=child").json["items"]
    assert child["dataTime"] == "2026-01-01T00:00:00.000Z"


def test_tasks_of_a_suspended_group_wait_and_running_tasks_finish(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 4})
    runner.submit()
    held = runner.take(1)
    result = runner.post("/v1/groups/default:suspend", {"reason": "maintenance"})
    assert result["suspended"].endswith(": maintenance")
    for _ in range(3):
        assert runner.worker.take() == []
    runner.worker.report(held)
    assert runner.step("a")["counts"] == {"SUCCESS": 1, "READY": 3}
    [reason] = runner.job()["waitingFor"]
    assert "group default was suspended by" in reason
    assert "maintenance" in reason
    sentences = runner.cloud.http("GET", "/v1/jobs/orders/t1:explain").json["sentences"]
    assert any("group default was suspended by" in each for each in sentences)
    runner.post("/v1/groups/default:resume")
    runner.later(10)
    assert runner.run()["state"] == "SUCCESS"


def test_a_worker_whose_groups_are_all_suspended_is_suspended(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    worker = register(runner, groups=["default", "other"])
    for name in ("default", "other"):
        assert not _beat(runner, worker)["suspended"]
        runner.post(f"/v1/groups/{name}:suspend")
    assert _beat(runner, worker)["suspended"]
    rejected = runner.post("/v1/work:lease", {"workerId": worker["id"]}, status=409)
    assert rejected["code"] == "worker-suspended"
    assert "group default was suspended by" in rejected["detail"]
    runner.post("/v1/groups/other:resume")
    assert not _beat(runner, worker)["suspended"]
    assert runner.post("/v1/work:lease", {"workerId": worker["id"]})["items"] == []


def _beat(runner: JobRunner, worker: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/workers/{worker['id']}:heartbeat"
    result: dict[str, Any] = runner.post(path, {"session": worker["session"]})
    return result


def test_a_step_of_two_groups_continues_in_the_active_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    runner.define({"stepName": "a", "sharding": 6, "workerGroups": ["default", "other"]})
    runner.post("/v1/groups/default:suspend")
    runner.worker = type(runner.worker)(runner.mill, "both", ["default", "other"])
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"


def test_suspending_all_groups_includes_groups_created_later(runner: JobRunner) -> None:
    runner.post("/v1/groups:suspend", {"reason": "fire drill"}, status=204)
    runner.cloud.http("PUT", "/v1/groups/later", {})
    runner.define({"stepName": "a", "workerGroup": "later"})
    runner.define({"stepName": "a", "workerGroup": "lambda"}, name="quick")
    runner.submit()
    runner.submit(name="quick")
    runner.worker = type(runner.worker)(runner.mill, "late", ["later"])
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    for _ in range(3):
        assert runner.worker.take() == []
        runner.cloud.serve_lambda_queue()
    assert runner.job(name="quick")["state"] == "QUEUED"
    groups = runner.cloud.http("GET", "/v1/groups").json["items"]
    assert {each["name"] for each in groups if "fire drill" in each["suspended"]} == {
        "default",
        "lambda",
        "later",
    }
    runner.post("/v1/groups:resume", status=204)
    runner.later(10)
    assert runner.run()["state"] == "SUCCESS"
    runner.cloud.run_until(lambda: runner.ended(name="quick"), 30, meanwhile=runner.cloud.serve_lambda_queue)


def test_an_unknown_group_cannot_be_suspended(runner: JobRunner) -> None:
    assert runner.post("/v1/groups/nope:suspend", status=404)["code"] == "group-not-found"


def test_an_older_version_of_a_suspended_definition_is_suspended(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.define({"stepName": "b"})
    runner.post("/v1/definitions/orders:suspend", {"reason": "bad"})
    assert runner.cloud.http("GET", "/v1/definitions/orders?version=1").json["suspended"].endswith(": bad")


def test_a_job_waiting_for_a_suspended_and_an_empty_group_names_both(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/empty", {})
    runner.define({"stepName": "a", "workerGroups": ["default", "empty"]})
    runner.post("/v1/groups/default:suspend", {"reason": "maintenance"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    [reason] = runner.job()["waitingFor"]
    assert reason.startswith("step a: group empty has no live worker; group default was suspended by")
    assert "no heartbeat" not in reason


def test_a_heartbeat_names_the_suspended_group(runner: JobRunner) -> None:
    worker = register(runner)
    beat = {"session": worker["session"]}
    runner.post("/v1/groups/default:suspend", {"reason": "maintenance"})
    result = runner.post(f"/v1/workers/{worker['id']}:heartbeat", beat)
    assert "group default was suspended by" in result["notes"]
    assert "workers resume" not in result["notes"]
    runner.post("/v1/groups/default:resume")
    assert runner.post(f"/v1/workers/{worker['id']}:heartbeat", beat)["notes"] is None


def test_the_asterisk_is_not_a_group_name(runner: JobRunner) -> None:
    runner.post("/v1/groups:suspend", status=204)
    for action in (":suspend", ":resume"):
        assert runner.post(f"/v1/groups/*{action}", status=404)["code"] == "group-not-found"
    assert runner.cloud.http("GET", "/v1/groups/*").status == 404
    assert runner.cloud.http("DELETE", "/v1/groups/*?force=true").status == 404
