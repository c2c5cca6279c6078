"""Submission: one Job per jobName and trigger, also for repeated and concurrent requests."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine.jobs.submit import Submitted, submit
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.paths import PROJECT
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner

EVENTS = sorted((PROJECT / "events").glob("*.json"))


def test_fifty_concurrent_requests_create_one_job_and_one_execution(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a"})
    request = {"jobName": "orders", "trigger": "t1", "params": {"x": 1}}

    def submit_once(_: int) -> Submitted:
        return submit(runner.mill, request, Actor("user"), now=runner.worker.clock(), new_id=new_id)

    with ThreadPoolExecutor(25) as pool:
        results = list(pool.map(submit_once, range(50)))
    assert sum(response.new for response in results) == 1
    assert len({response.job.id for response in results}) == 1
    assert len(runner.cloud.executions("job")) == 1
    assert [job["trigger"] for job in runner.cloud.http("GET", "/v1/jobs").json["items"]] == ["t1"]


def test_a_repeated_request_returns_the_same_job_and_different_content_is_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "params": {"p": 1}})
    first = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "params": {"a": 1, "b": 2}}
    )
    repeated = runner.cloud.http(
        "POST", "/v1/jobs", {"params": {"b": 2, "a": 1}, "trigger": "t", "jobName": "orders"}
    )
    other = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "params": {"a": 1}})
    assert (first.status, repeated.status, other.status) == (202, 200, 409)
    assert first.json["id"] == repeated.json["id"]
    assert other.json["code"] == "trigger-taken"
    assert first.headers["location"] == "/v1/jobs/orders/t"


def test_a_job_keeps_the_version_it_started_with(runner: JobRunner) -> None:
    runner.define({"stepName": "old", "sharding": 2})
    runner.submit()
    runner.define({"stepName": "new"})
    assert runner.run()["definitionVersion"] == 1
    assert runner.states() == {"old": "SUCCESS"}
    runner.submit("t2")
    runner.run(trigger="t2")
    assert runner.states("t2") == {"new": "SUCCESS"}


@pytest.mark.parametrize(
    ("request_", "status", "code", "pointers"),
    [
        ({"jobName": "nobody", "trigger": "t"}, 404, "definition-not-found", []),
        ({"jobName": "orders"}, 422, "invalid-request", ["/trigger"]),
        ({"jobName": "orders", "trigger": "a b"}, 422, "invalid-request", ["/trigger"]),
        ({"jobName": "1play", "trigger": "t"}, 422, "invalid-request", ["/jobName"]),
        (
            {"jobName": "orders", "trigger": "t", "steps": [{"stepName": "zzz"}]},
            422,
            "invalid-request",
            ["/steps/0/stepName"],
        ),
        ({"jobName": "orders", "trigger": "t", "prams": {}}, 422, "invalid-request", ["/prams"]),
        ([], 422, "invalid-request", [""]),
        ("text", 422, "invalid-request", [""]),
    ],
)
def test_invalid_requests_are_rejected_with_a_pointer_and_create_no_job(
    runner: JobRunner, request_: Any, status: int, code: str, pointers: list[str]
) -> None:
    runner.define({"stepName": "a"})
    response = runner.cloud.http("POST", "/v1/jobs", request_)
    assert (response.status, response.json["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert [fault["pointer"] for fault in response.json.get("faults", [])] == pointers
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []


def test_a_job_whose_group_does_not_exist_is_rejected(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "workerGroup": "nowhere"})
    response = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t"})
    assert response.status == 422
    assert response.json["faults"][0]["code"] == "unknown-group"
    assert "nowhere" in response.json["faults"][0]["message"]


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_every_sample_event_submits_a_job_once(runner: JobRunner, path: Path) -> None:
    runner.define({"stepName": "generate_files"}, {"stepName": "merge_files"}, name="balance-report")
    event = json.loads(path.read_text())
    first, repeated = runner.cloud.invoke("submit", event), runner.cloud.invoke("submit", event)
    assert first["new"] is True
    if "detail" in event or "trigger" in event:
        assert (repeated["new"], repeated["job"]["id"]) == (False, first["job"]["id"])
    job = runner.run(name="balance-report", trigger=first["job"]["trigger"])
    assert job["state"] == "SUCCESS"


def test_specific_parameters_override_general_ones(runner: JobRunner) -> None:
    runner.define(
        {
            "stepName": "a",
            "type": "shell",
            "content": "echo {{ params.x }} {{ params.y }} {{ params.z }}",
            "params": {"y": "step"},
        },
        params={"x": "job", "y": "job", "z": "job"},
    )
    runner.submit(params={"x": "it's", "y": "req"}, steps=[{"stepName": "a", "params": {"z": "req step"}}])
    [lease] = runner.take(1)
    assert lease.content == "echo 'it'\"'\"'s' step 'req step'"
    assert lease.environ["x"] == "it's"
    assert lease.environ["SHARDMILL_SHARD_TOTAL"] == "1"
    assert runner.job()["params"] == {"x": "it's", "y": "req", "z": "job"}


def test_private_values_are_visible_only_to_the_worker(runner: JobRunner) -> None:
    command = {"name": "env", "environ": {"public": {"LANG": "C"}, "private": {"KEY": "s3cret"}}}
    runner.define({"stepName": "a", "command": command})
    runner.submit()
    [lease] = runner.take(1)
    assert FileWorker(runner).ask(lease, prepare=True)["prepared"]["environ"] == {"KEY": "s3cret"}
    for path in (
        "/v1/definitions/orders",
        "/v1/definitions",
        "/v1/jobs/orders/t1",
        "/v1/jobs/orders/t1/steps/a/tasks/0",
    ):
        assert "s3cret" not in json.dumps(runner.cloud.http("GET", path).json)
    assert (
        runner.cloud.http("GET", "/v1/definitions/orders").json["steps"][0]["command"]["hasPrivateEnv"]
        is True
    )


@pytest.mark.parametrize("prog", ["", " ", "ok"])
def test_a_job_with_an_empty_command_name_is_rejected(runner: JobRunner, prog: str) -> None:
    runner.define({"stepName": "a", "command": {"name": "{{ params.prog }}"}}, params={"prog": "x"})
    response = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "params": {"prog": prog}}
    )
    assert response.status == (422 if prog == "" else 202), response.json


@pytest.mark.parametrize("where", ["content", "params"])
def test_a_job_larger_than_a_row_is_rejected(runner: JobRunner, where: str) -> None:
    big = "x" * 400_000
    step = {"stepName": "a", "type": "shell", "content": big if where == "content" else "true"}
    runner.define(step)
    params = {"p": big} if where == "params" else {}
    response = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "params": params})
    assert response.status == 422
    assert {fault["code"] for fault in response.json["faults"]} <= {"step-too-large", "job-too-large"}


@pytest.mark.parametrize("event", [5, None, [], {}, "x"])
def test_the_submit_function_reports_invalid_events(runner: JobRunner, event: Any) -> None:
    with pytest.raises(FunctionError, match="not valid: /"):
        runner.cloud.invoke("submit", event)
