"""Definitions with uniqueAliveInstance: at most one Job that has not ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine.control.rerun import Scope, rerun
from shardmill.engine.errors import AliveInstance, MillError
from shardmill.engine.jobs.submit import submit
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults
from support.moto.cloud import Answer
from support.scenarios.job_runner import JobRunner, fail_shards

USER = Actor("user")


def unique(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, uniqueAliveInstance=True)


def request(runner: JobRunner, trigger: str) -> Answer:
    return runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": trigger})


def test_a_second_request_is_refused_while_a_job_is_alive(runner: JobRunner) -> None:
    unique(runner)
    assert request(runner, "t1").status == 202
    refused = request(runner, "t2")
    assert (refused.status, refused.json["code"]) == (409, "alive-instance")
    assert "orders/t1" in refused.json["detail"]
    assert request(runner, "t1").status == 200
    runner.run()
    assert request(runner, "t2").status == 202
    assert request(runner, "t3").status == 409


def test_a_job_of_a_version_without_the_setting_counts_too(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    request(runner, "t1")
    unique(runner)
    assert (request(runner, "t2").status, request(runner, "t2").json["code"]) == (409, "alive-instance")
    runner.run()
    assert request(runner, "t2").status == 202


@pytest.mark.parametrize("action", ["kill", "delete"])
def test_a_job_that_was_killed_or_deleted_is_not_alive(runner: JobRunner, action: str) -> None:
    unique(runner)
    request(runner, "t1")
    if action == "kill":
        runner.post("/v1/jobs/orders/t1:kill", {})
    else:
        runner.cloud.http("DELETE", "/v1/jobs/orders/t1?full=true")
    assert request(runner, "t2").status == 202


def test_a_suspended_job_is_alive(runner: JobRunner) -> None:
    unique(runner)
    request(runner, "t1")
    runner.post("/v1/jobs/orders/t1:suspend", {})
    assert request(runner, "t2").status == 409
    runner.post("/v1/jobs/orders/t1:resume", {})
    assert runner.run()["state"] == "SUCCESS"


def test_a_rerun_is_refused_while_another_job_is_alive_and_makes_its_job_alive(runner: JobRunner) -> None:
    unique(runner)
    request(runner, "t1")
    runner.run(fail_shards(0))
    request(runner, "t2")
    refused = runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun", {})
    assert (refused.status, refused.json["code"]) == (409, "alive-instance")
    runner.run(trigger="t2")
    runner.post("/v1/jobs/orders/t1:rerun", {})
    assert request(runner, "t3").status == 409
    runner.run()
    assert request(runner, "t3").status == 202


def test_only_one_of_several_concurrent_requests_creates_a_job(runner: JobRunner, faults: Faults) -> None:
    unique(runner)

    def submit_once(number: int) -> bool:
        document = {"jobName": "orders", "trigger": f"t{number}"}
        try:
            return submit(runner.mill, document, USER, now=runner.worker.clock(), new_id=new_id).new
        except AliveInstance:
            return False

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(submit_once, range(20))) == 1
    assert len(runner.cloud.http("GET", "/v1/jobs").json["items"]) == 1


def test_only_one_of_a_concurrent_request_and_rerun_succeeds(runner: JobRunner, faults: Faults) -> None:
    unique(runner)
    request(runner, "t1")
    runner.run(fail_shards(0))
    for turn in range(5):
        ended = runner.mill.jobs.find("orders", "t1")
        assert ended is not None

        def submit_new(trigger: str = f"new{turn}") -> None:
            document = {"jobName": "orders", "trigger": trigger}
            submit(runner.mill, document, USER, now=runner.worker.clock(), new_id=new_id)

        def rerun_old(job=ended) -> None:  # type: ignore[no-untyped-def]
            rerun(runner.mill, job, Scope(everything=True), USER, "", runner.worker.clock())

        with ThreadPoolExecutor(2) as pool:
            outcomes = [each.exception() for each in map(pool.submit, (submit_new, rerun_old))]
        assert all(each is None or isinstance(each, MillError) for each in outcomes)
        live = [job for job in runner.cloud.http("GET", "/v1/jobs").json["items"] if job["registered"]]
        assert len(live) == 1 == outcomes.count(None)
        runner.post(f"/v1/jobs/orders/{live[0]['trigger']}:kill", {})


def test_a_create_that_succeeds_without_an_answer_is_found_again(runner: JobRunner, faults: Faults) -> None:
    unique(runner)
    faults.fail("dynamodb", "TransactWriteItems", how="after")
    assert request(runner, "t1").status >= 500
    assert request(runner, "t1").status == 200
    assert request(runner, "t2").status == 409


def test_a_firing_while_a_job_is_alive_is_recorded_as_refused(runner: JobRunner) -> None:
    unique(runner)
    request(runner, "t1")
    runner.cloud.http("PUT", "/v1/schedules/orders/s", {"everySeconds": 60})
    runner.tick(2)
    history = runner.cloud.http("GET", "/v1/schedules/orders/s").json["history"]
    assert "uniqueAliveInstance" in history[0]["reason"]
    assert history[0]["outcome"] == "refused"
    refused = runner.cloud.http("POST", "/v1/schedules/orders/s:fire", {})
    assert (refused.status, refused.json["code"]) == (409, "alive-instance")
