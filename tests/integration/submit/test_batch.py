"""POST /v1/jobs:batch: each request has its own answer."""

from typing import Any

import pytest

from shardmill.api import batch
from shardmill.api.request_checks import MAX_BODY_BYTES
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner


def request(trigger: str, **more: Any) -> dict[str, Any]:
    return {"jobName": "orders", "trigger": trigger, **more}


def submit(runner: JobRunner, *requests: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = runner.post("/v1/jobs:batch", {"requests": list(requests)})["items"]
    return items


def test_each_request_is_answered_as_if_it_were_submitted_alone(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit("old")
    requests: list[Any] = [
        request("t1"),
        request("old"),
        request("old", params={"x": 1}),
        {"jobName": "missing", "trigger": "t1"},
        request("t2", colour="red"),
        "not a request",
        [],
        request("t1"),
        request("t3"),
    ]
    items = submit(runner, *requests)
    assert [item["status"] for item in items] == [202, 200, 409, 404, 422, 422, 422, 200, 202]
    for sent, item in zip(requests, items, strict=True):
        alone = runner.cloud.http("POST", "/v1/jobs", sent)
        if item["problem"]:
            assert (alone.status, alone.json) == (item["status"], item["problem"]), sent
            assert item["job"] is None
        else:
            known = ("id", "jid", "jobName", "trigger")  # its state changes concurrently
            assert [alone.json[name] for name in known] == [item["job"][name] for name in known], sent
    for trigger in ("t1", "t3"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"


def test_the_number_of_requests_and_their_size_are_limited(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    answers = [
        runner.cloud.http("POST", "/v1/jobs:batch", body)
        for body in (
            {"requests": []},
            {"requests": [request(f"t{n}") for n in range(101)]},
            {"requests": {}},
            {},
            [request("t1")],
            {"requests": [request("t1")], "more": 1},
            {"requests": [request("t1", params={"x": "x" * MAX_BODY_BYTES})]},
        )
    ]
    assert [answer.status for answer in answers] == [422] * 6 + [413]
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []


def test_a_request_that_fails_does_not_stop_the_others(runner: JobRunner, faults: Faults) -> None:
    """A job that was written is answered by the repetition, and the tick starts it."""
    runner.define({"stepName": "a"})
    faults.fail("dynamodb", "TransactWriteItems", nth=2, how="before", times=3)
    items = submit(runner, request("t1"), request("t2"), request("t3"))
    assert items[0]["status"] == 202
    assert {item["status"] for item in items[1:]} <= {202, 500, 503}
    assert any(item["problem"] for item in items)
    faults.clear_faults()
    assert {item["status"] for item in submit(runner, *(request(f"t{n}") for n in (1, 2, 3)))} <= {200, 202}


def test_a_batch_that_takes_too_long_answers_the_rest_at_once(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"})
    monkeypatch.setattr(batch, "TIME_LIMIT_MS", -1)
    [item] = submit(runner, request("t1"))
    assert (item["status"], item["problem"]["code"]) == (503, "busy")
    assert runner.cloud.http("GET", "/v1/jobs/orders/t1").status == 404


def test_definitions_and_groups_are_read_once_for_a_batch(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, name="parent")
    runner.define({"stepName": "a"}, dependencies=["parent"])  # its Jobs wait, and make no further calls
    calls = []
    for count in (1, 11):
        requests = [request(f"t{count}-{n}", dataTime="2026-01-01T00:00:00Z") for n in range(count)]
        faults.meter.reset()
        assert {item["status"] for item in submit(runner, *requests)} == {202}
        calls.append(faults.meter.calls.copy())
    one, many = calls
    assert many["dynamodb.GetItem"] - one["dynamodb.GetItem"] == 10  # whether the trigger is used
    # A Job that waits reads the runs and schedules of its parents, and the newest version of its definition.
    assert many["dynamodb.Query"] - one["dynamodb.Query"] == 2 * 10
    assert many["dynamodb.BatchGetItem"] - one["dynamodb.BatchGetItem"] == 10
