"""Deleting Jobs, by hand and by age; and telling why a Job is not finished."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.control import delete
from support.diary import Diary, at
from support.play import Play, fail_shards


def remove(play: Play, trigger: str = "t1", query: str = "", status: int = 204) -> None:
    answer = play.cloud.http("DELETE", f"/v1/jobs/play/{trigger}{query}")
    assert answer.status == status, answer


def rows_of(play: Play, job_id: str) -> list[str]:
    """Every row that has to do with a Job; a scan, which only a test may do."""
    pages = play.cloud.clients.dynamodb.get_paginator("scan").paginate(TableName=play.cloud.table)
    keys = [f"{item['pk']['S']} {item['sk']['S']}" for page in pages for item in page["Items"]]
    return [key for key in keys if job_id in key]


def test_a_deleted_job_is_gone_from_lists_and_its_name_is_free(play: Play) -> None:
    play.define({"stepName": "a"})
    first = play.submit()
    play.run()
    remove(play)
    assert play.cloud.http("GET", "/v1/jobs").json["items"] == []
    assert play.cloud.http("GET", "/v1/jobs?jobName=play").json["items"] == []
    assert play.cloud.http("GET", "/v1/jobs/play/t1").status == 404
    [gone] = play.cloud.http("GET", "/v1/jobs?state=DELETED").json["items"]
    assert gone["id"] == first["id"]
    again = play.submit(params={"other": 1})
    assert again["id"] != first["id"]
    assert play.run()["state"] == "SUCCESS"
    remove(play, "t2", status=404)


def test_a_job_that_runs_is_killed_first(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    held = play.take(1)
    remove(play)
    assert play.hands.beat(held) == [held[0].task_id]
    assert play.cloud.executions(status="RUNNING") == []


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_nothing_is_left_of_a_job_deleted_in_full(play: Play, at_once: int) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b"})
    job = play.submit()
    play.run(fail_shards(1, step="a"))
    play.cloud.http("POST", "/v1/jobs/play/t1:rerun")
    play.run()
    key = f"logs/{job['id']}/1/0/0/1/stdout/000000"
    play.cloud.clients.s3.put_object(Bucket=play.cloud.bucket, Key=key, Body=b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete, "ROWS_AT_ONCE", at_once)
        remove(play, query="?full=true")
        for minute in range(2, 30):
            play.tick(minutes=minute)
    assert rows_of(play, job["id"]) == []
    assert play.cloud.clients.s3.list_objects_v2(Bucket=play.cloud.bucket)["KeyCount"] == 0


def test_jobs_expire_with_their_retention(play: Play) -> None:
    play.define({"stepName": "a"}, retentionDays=30)
    job = play.submit()
    play.run()
    play.cloud.tell_dependency()
    play.tick(minutes=29 * 1440)
    assert play.job()["state"] == "SUCCESS"
    play.tick(minutes=31 * 1440)
    assert rows_of(play, job["id"]) == []


def why(play: Play, trigger: str = "t1", name: str = "play") -> str:
    answer = play.cloud.http("GET", f"/v1/jobs/{name}/{trigger}:explain")
    assert answer.status == 200, answer
    return "\n".join(answer.json["sentences"])


def test_why_a_job_is_not_finished(play: Play) -> None:
    play.define(
        {"stepName": "a", "sharding": 3, "failedRetries": 2, "failedInterval": 600},
        {"stepName": "b", "dependentStep": "a"},
    )
    play.submit()
    held = play.take(2)
    play.hands.report(held[:1], "failed", stderr="no\nsuch file")
    told = why(play)
    assert "Step a is RUNNING: 0 of 3 tasks have ended, 1 run, 2 wait." in told
    assert f"1 tasks of step a wait to be tried again, the first of them {held[0].task_id}" in told
    assert f"{held[1].task_id} runs longest" in told
    assert "Step b waits for a." in told


def test_why_nobody_runs_it(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/lonely", {})
    play.define({"stepName": "a"}, workerGroup="lonely")
    play.submit()
    play.cloud.run_until(lambda: "group lonely has no live worker" in why(play))


def test_why_it_waits_or_was_suspended(play: Play) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.submit("t1")
    play.cloud.run_until(lambda: play.job("t1")["state"] == "QUEUED")
    play.submit("t2")
    play.cloud.run_until(lambda: play.job("t2")["state"] == "WAITING")
    assert "waits for one of the 1 Jobs of play" in why(play, "t2")
    assert "play/t1 is QUEUED and has a slot" in why(play, "t2")
    play.cloud.http("POST", "/v1/jobs/play/t1:suspend", {"reason": "lunch"})
    assert "suspended by admin: lunch" in why(play)


def test_why_it_failed(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3})
    play.submit()

    def report(outcome: str, **more: Any) -> None:
        play.hands.report(play.take(1), outcome, **more)

    report("failed-permanent", stderr="one\ntwo\nthe disk is full", exitCode=7)
    report("success")
    report("success")
    play.run()
    told = why(play)
    assert "play/t1 is FAILED." in told
    assert "The first task that failed is" in told
    assert told.endswith("one\ntwo\nthe disk is full")


def test_why_it_waits_for_others(play: Play) -> None:
    play.define({"stepName": "a"}, dependencies=["other"])
    play.submit(dataTime="2026-01-01T00:00:00Z")
    assert why(play) == "play/t1 waits for other of 2026-01-01T00:00:00Z."
    play.define({"stepName": "a"}, name="done")
    Diary(play).save("2026-01-01 00:00", "done", cron="0 1 * * *")
    play.cloud.tick(at("2026-01-01 01:00"))
    play.run(trigger="20260101T010000Z-s", name="done")
    assert "done/20260101T010000Z-s succeeded at" in why(play, "20260101T010000Z-s", "done")
