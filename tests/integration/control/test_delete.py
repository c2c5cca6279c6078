"""Deletion of Jobs on request and by retention."""

from __future__ import annotations

import pytest

from shardmill.engine.control import delete
from support.scenarios.job_runner import JobRunner, fail_shards


def delete_job(runner: JobRunner, trigger: str = "t1", query: str = "", status: int = 204) -> None:
    response = runner.cloud.http("DELETE", f"/v1/jobs/orders/{trigger}{query}")
    assert response.status == status, response


def rows_of(runner: JobRunner, job_id: str) -> list[str]:
    """Scan the table for all rows whose key contains the Job's id."""
    pages = runner.cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=runner.cloud.table)
    keys = [f"{item['pk']['S']} {item['sk']['S']}" for page in pages for item in page["Items"]]
    return [key for key in keys if job_id in key]


def test_a_deleted_job_is_not_listed_and_its_trigger_can_be_reused(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    first = runner.submit()
    runner.run()
    delete_job(runner)
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []
    assert runner.cloud.http("GET", "/v1/jobs?jobName=orders").json["items"] == []
    assert runner.cloud.http("GET", "/v1/jobs/orders/t1").status == 404
    [deleted] = runner.cloud.http("GET", "/v1/jobs?state=DELETED").json["items"]
    assert deleted["id"] == first["id"]
    second = runner.submit(params={"other": 1})
    assert second["id"] != first["id"]
    assert runner.run()["state"] == "SUCCESS"
    delete_job(runner, "t2", status=404)


def test_deleting_a_running_job_kills_it(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    delete_job(runner)
    assert runner.worker.beat(held) == [held[0].task_id]
    assert runner.cloud.executions(status="RUNNING") == []


@pytest.mark.parametrize("batch_size", [1, 1_000])
def test_a_full_delete_leaves_no_rows_or_files(runner: JobRunner, batch_size: int) -> None:
    runner.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    job = runner.submit()
    runner.run(fail_shards(1, step="a"))
    runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun")
    runner.run()
    key = f"logs/{job['id']}/1/0/0/1/stdout/000000"
    runner.cloud.clients.s3.put_object(Bucket=runner.cloud.bucket, Key=key, Body=b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete, "PURGE_BATCH", batch_size)
        delete_job(runner, query="?full=true")
        for minute in range(2, 30):
            runner.tick(minutes=minute)
    assert rows_of(runner, job["id"]) == []
    assert runner.cloud.clients.s3.list_objects_v2(Bucket=runner.cloud.bucket)["KeyCount"] == 0


def test_jobs_are_deleted_after_their_retention(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, retentionDays=30)
    job = runner.submit()
    runner.run()
    runner.cloud.deliver_job_ends()
    runner.tick(minutes=29 * 1440)
    assert runner.job()["state"] == "SUCCESS"
    runner.tick(minutes=31 * 1440)
    assert rows_of(runner, job["id"]) == []
