"""Deletion of Jobs, on request and by age, and explain."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.control import delete
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.schedule_clock import ScheduleClock, at


def remove(runner: JobRunner, trigger: str = "t1", query: str = "", status: int = 204) -> None:
    answer = runner.cloud.http("DELETE", f"/v1/jobs/play/{trigger}{query}")
    assert answer.status == status, answer


def rows_of(runner: JobRunner, job_id: str) -> list[str]:
    """Every row that has to do with a Job; a scan, which only a test may do."""
    pages = runner.cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=runner.cloud.table)
    keys = [f"{item['pk']['S']} {item['sk']['S']}" for page in pages for item in page["Items"]]
    return [key for key in keys if job_id in key]


def test_a_deleted_job_is_gone_from_lists_and_its_name_is_free(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    first = runner.submit()
    runner.run()
    remove(runner)
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []
    assert runner.cloud.http("GET", "/v1/jobs?jobName=play").json["items"] == []
    assert runner.cloud.http("GET", "/v1/jobs/play/t1").status == 404
    [gone] = runner.cloud.http("GET", "/v1/jobs?state=DELETED").json["items"]
    assert gone["id"] == first["id"]
    again = runner.submit(params={"other": 1})
    assert again["id"] != first["id"]
    assert runner.run()["state"] == "SUCCESS"
    remove(runner, "t2", status=404)


def test_a_job_that_runs_is_killed_first(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    remove(runner)
    assert runner.worker.beat(held) == [held[0].task_id]
    assert runner.cloud.executions(status="RUNNING") == []


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_a_full_delete_leaves_no_rows_or_files(runner: JobRunner, at_once: int) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    job = runner.submit()
    runner.run(fail_shards(1, step="a"))
    runner.cloud.http("POST", "/v1/jobs/play/t1:rerun")
    runner.run()
    key = f"logs/{job['id']}/1/0/0/1/stdout/000000"
    runner.cloud.clients.s3.put_object(Bucket=runner.cloud.bucket, Key=key, Body=b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete, "PURGE_BATCH", at_once)
        remove(runner, query="?full=true")
        for minute in range(2, 30):
            runner.tick(minutes=minute)
    assert rows_of(runner, job["id"]) == []
    assert runner.cloud.clients.s3.list_objects_v2(Bucket=runner.cloud.bucket)["KeyCount"] == 0


def test_jobs_expire_with_their_retention(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, retentionDays=30)
    job = runner.submit()
    runner.run()
    runner.cloud.deliver_job_ends()
    runner.tick(minutes=29 * 1440)
    assert runner.job()["state"] == "SUCCESS"
    runner.tick(minutes=31 * 1440)
    assert rows_of(runner, job["id"]) == []


def why(runner: JobRunner, trigger: str = "t1", name: str = "play") -> str:
    answer = runner.cloud.http("GET", f"/v1/jobs/{name}/{trigger}:explain")
    assert answer.status == 200, answer
    return "\n".join(answer.json["sentences"])


def test_why_a_job_is_not_finished(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a", "sharding": 3, "failedRetries": 2, "failedInterval": 600},
        {"stepName": "b", "dependentStep": "a"},
    )
    runner.submit()
    held = runner.take(2)
    runner.worker.report(held[:1], "failed", stderr="no\nsuch file")
    told = why(runner)
    assert "Step a is RUNNING: 0 of 3 tasks have ended, running: 1, waiting: 2." in told
    assert f"Tasks of step a waiting for a retry: 1; the first is {held[0].task_id}" in told
    assert f"{held[1].task_id} has been running longest" in told
    assert "Step b waits for a." in told


def test_explain_says_why_no_worker_runs_a_task(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/lonely", {})
    runner.define({"stepName": "a"}, workerGroup="lonely")
    runner.submit()
    runner.cloud.run_until(lambda: "group lonely has no live worker" in why(runner))


def test_why_it_waits_or_was_suspended(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("t1")
    runner.cloud.run_until(lambda: runner.job("t1")["state"] == "QUEUED")
    runner.submit("t2")
    runner.cloud.run_until(lambda: runner.job("t2")["state"] == "WAITING")
    assert "waits for a free slot: the concurrency of play is 1" in why(runner, "t2")
    assert "play/t1 is QUEUED and holds a slot" in why(runner, "t2")
    runner.cloud.http("POST", "/v1/jobs/play/t1:suspend", {"reason": "lunch"})
    assert "suspended by admin: lunch" in why(runner)


def test_why_it_failed(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()

    def report(outcome: str, **more: Any) -> None:
        runner.worker.report(runner.take(1), outcome, **more)

    report("failed-permanent", stderr="one\ntwo\nthe disk is full", exitCode=7)
    report("success")
    report("success")
    runner.run()
    told = why(runner)
    assert "play/t1 is FAILED." in told
    assert "The first task that failed is" in told
    assert told.endswith("one\ntwo\nthe disk is full")


def test_why_it_waits_for_others(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, dependencies=["other"])
    runner.submit(dataTime="2026-01-01T00:00:00Z")
    assert why(runner) == "play/t1 waits for other of 2026-01-01T00:00:00Z."
    runner.define({"stepName": "a"}, name="done")
    ScheduleClock(runner).save("2026-01-01 00:00", "done", cron="0 1 * * *")
    runner.cloud.tick(at("2026-01-01 01:00"))
    runner.run(trigger="20260101T010000Z-s", name="done")
    assert "done/20260101T010000Z-s succeeded at" in why(runner, "20260101T010000Z-s", "done")
