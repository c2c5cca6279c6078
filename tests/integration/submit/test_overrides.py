"""Requests that change steps of a Job, start it later or give it a deadline, in the form of seed 000."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardmill.engine.jobs.effective import ignored_steps
from shardmill.model.timestamps import from_ms
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards

SAMPLE: list[dict[str, Any]] = [
    {"stepName": "prep", "stepType": "SIMPLE", "params": {"k1": "v11"}},
    {"stepName": "calc", "stepType": "SHARD", "shardConf": {"shard": 4}, "dependentStep": "prep"},
    {"stepName": "sum", "stepType": "PACK", "packConf": {"size": 100, "start": 0, "end": 925},
     "dependency": {"steps": ["calc"]}},
]  # fmt: skip


def test_a_request_of_seed_000_changes_shards_packs_and_parameters(runner: JobRunner) -> None:
    runner.define(*SAMPLE, version=1, priority=10, params={"k1": "v1", "k2": "v2"})
    runner.submit(
        "20210104-05",
        priority=11,
        params={"k1": "v3"},
        steps=[
            {"stepName": "prep", "params": {"k1": "v4"}},
            {"stepName": "calc", "shardConf": {"shard": 6, "startShardId": 4}},
            {"stepName": "sum", "packConf": {"size": 500}, "priority": 12},
        ],
    )
    job = runner.run(trigger="20210104-05")
    assert (job["state"], job["priority"]) == ("SUCCESS", 11)
    assert [step["totalWork"] for step in job["steps"]] == [1, 2, 2]
    assert [step["priority"] for step in job["steps"]] == [11, 11, 12]
    assert job["steps"][0]["params"] == {"k1": "v4", "k2": "v2"}
    assert runner.step("calc", "20210104-05")["taskStates"] == {"4": "SUCCESS", "5": "SUCCESS"}
    packs = [task["pack"] for task in runner.step_tasks("sum", "20210104-05")]
    assert packs == [{"start": 0, "end": 499}, {"start": 500, "end": 925}]


def test_an_ignored_step_is_skipped_and_the_steps_after_it_run(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "workerGroup": "nowhere"},
        {"stepName": "c", "dependentStep": "b"},
    )
    runner.submit(steps=[{"stepName": "b", "ignore": True}])
    job = runner.run()
    assert job["state"] == "SUCCESS"
    assert runner.states() == {"a": "SUCCESS", "b": "SKIPPED", "c": "SUCCESS"}
    assert job["steps"][1]["notes"] == "ignored by the request"
    nothing = runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun", {})
    assert nothing.status == 409
    runner.post("/v1/jobs/orders/t1:rerun", {"scope": "all"})
    assert runner.run()["state"] == "SUCCESS"
    assert runner.states() == {"a": "SUCCESS", "b": "SKIPPED", "c": "SUCCESS"}


def test_a_failure_and_a_false_condition_pass_through_an_ignored_step(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a"},
        {"stepName": "c", "dependentStep": "b"},
        {"stepName": "x", "when": "{{ false }}"},
        {"stepName": "y", "dependentStep": "x"},
        {"stepName": "z", "dependentStep": "y"},
        {"stepName": "zz", "dependentStep": "y", "runIfSkipped": True},
    )
    ignored = [{"stepName": "b", "ignore": True}, {"stepName": "y", "ignore": True}]
    runner.submit(steps=ignored)
    runner.run(fail_shards(0, step="a"))
    assert runner.states() == {
        "a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "x": "SKIPPED", "y": "SKIPPED", "z": "SKIPPED",
        "zz": "SUCCESS",
    }  # fmt: skip
    runner.post("/v1/jobs/orders/t1:rerun", {})
    runner.run()
    assert runner.states()["c"] == "SUCCESS"
    assert runner.states()["b"] == "SKIPPED"


def test_a_request_changes_retries_timeout_groups_and_whether_a_step_can_fail(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/big", {})
    runner.define({"stepName": "a", "failedRetries": 5}, {"stepName": "b", "dependentStep": "a"})
    override = {
        "name": "a",
        "traits": ["CAN_FAIL"],
        "failedRetries": 0,
        "timeoutSeconds": 60,
        "maxTaskCount": 2,
    }
    runner.submit(steps=[override, {"name": "b", "workerGroup": "big"}])
    job = runner.job()
    assert [step["workerGroups"] for step in job["steps"]] == [["default"], ["big"]]
    [lease] = runner.take(1)
    assert lease.timeout_seconds == 60
    runner.worker.report([lease], "failed")
    runner.cloud.run_until(lambda: runner.states()["a"] == "TOLERATED")


def test_an_unknown_group_of_an_override_is_rejected_with_its_pointer(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b"})
    steps = [{"stepName": "a"}, {"stepName": "b", "workerGroup": "nowhere"}]
    answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "steps": steps})
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/steps/1")


SAME = [
    {"steps": [{"stepName": "calc", "sharding": 6}, {"stepName": "prep", "canFail": True}]},
    {"steps": [{"name": "prep", "traits": ["canFail"]}, {"name": "calc", "shardConf": {"shard": 6}}]},
    {"steps": [{"stepName": "prep", "traits": {"can_fail": True}}, {"name": "calc", "sharding": 6.0}]},
]


def test_the_same_request_in_another_spelling_is_the_same_job(runner: JobRunner) -> None:
    runner.define(*SAMPLE)
    common = {"jobName": "orders", "trigger": "t", "after": "2020-01-01T00:00:00Z", "duration": 60_000}
    answers = [runner.cloud.http("POST", "/v1/jobs", {**common, **each}) for each in SAME]
    respelled = {**common, "after": {"timestamp": 1577836800000}, "deadlineSeconds": 60, **SAME[0]}
    del respelled["duration"]
    answers.append(runner.cloud.http("POST", "/v1/jobs", respelled))
    assert [answer.status for answer in answers] == [202, 200, 200, 200]
    for other in ({"sharding": 7}, {"sharding": 6, "ignore": True}, {"sharding": 6, "priority": 1}):
        steps = [{"stepName": "calc", **other}, {"stepName": "prep", "canFail": True}]
        answer = runner.cloud.http("POST", "/v1/jobs", {**common, "steps": steps})
        assert (answer.status, answer.json["code"]) == (409, "trigger-taken")


def test_a_batch_takes_the_same_requests(runner: JobRunner) -> None:
    runner.define(*SAMPLE)
    requests = [
        {"jobName": "orders", "trigger": "a", "steps": [{"name": "calc", "ignore": True}]},
        {"jobName": "orders", "trigger": "b", "steps": [{"name": "calc", "packConf": {"size": 1}}]},
    ]
    items = runner.post("/v1/jobs:batch", {"requests": requests})["items"]
    assert [item["status"] for item in items] == [202, 422]
    row = runner.mill.jobs.find("orders", "a")
    assert row is not None
    assert ignored_steps(row) == {"calc"}


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_job_with_after_waits_until_that_time_and_its_deadline_counts_from_it(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    after = _in(3600)
    job = runner.submit(after=after, duration=300_500)
    assert job["state"] == "WAITING"
    assert job["waitingFor"][0].startswith("waits until 20")
    assert datetime.fromisoformat(after) - datetime.fromisoformat(job["after"]) < timedelta(seconds=1)
    assert datetime.fromisoformat(job["deadline"]) - datetime.fromisoformat(after) < timedelta(seconds=302)
    for minutes in (1, 2, 59):
        runner.tick(minutes)
    assert runner.job()["state"] == "WAITING"
    runner.tick(61)
    assert runner.run()["state"] == "SUCCESS"


def test_a_job_with_after_waits_for_its_parents_too(runner: JobRunner) -> None:
    runner.define({"stepName": "p"}, name="parent")
    runner.define({"stepName": "a"}, dependencies=["parent"])
    moment = "2026-01-01T00:00:00Z"
    runner.submit(after=_in(600), dataTime=moment)
    runner.submit("p1", name="parent", dataTime=moment)
    runner.run(trigger="p1", name="parent")
    runner.tick(2)
    assert runner.job()["state"] == "WAITING"
    runner.tick(11)
    assert runner.run()["state"] == "SUCCESS"


def test_a_waiting_job_can_be_killed_and_rerun_before_its_time(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit(after=_in(600))
    runner.post("/v1/jobs/orders/t1:kill", {})
    runner.post("/v1/jobs/orders/t1:rerun", {})
    runner.tick(2)
    assert runner.job()["state"] == "WAITING"
    runner.tick(11)
    assert runner.run()["state"] == "SUCCESS"


def test_a_time_that_has_passed_does_not_delay_a_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit(after=from_ms(0).isoformat())
    assert runner.run()["state"] == "SUCCESS"


def test_a_job_starts_after_its_time_although_its_start_fails_once(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    runner.submit(after=_in(60))
    failure = faults.fail("stepfunctions", "StartExecution")
    runner.tick(2)
    assert failure.hits == 1
    runner.tick(4)
    assert runner.run()["state"] == "SUCCESS"


@pytest.mark.parametrize(
    ("field", "value", "pointer", "code"),
    [
        ("after", "tomorrow", "/after", "bad-time"),
        ("after", {"timeString": "tomorrow"}, "/after/timeString", "bad-time"),
        ("after", {"timestamp": 10**18}, "/after/timestamp", "bad-time"),
        ("after", {"pattern": "yyyy"}, "/after", "bad-value"),
        ("after", {}, "/after", "bad-value"),
        ("duration", 0, "/duration", "bad-value"),
        ("duration", "5m", "/duration", "bad-value"),
        ("deadlineSeconds", 0, "/deadlineSeconds", "out-of-range"),
    ],
)
def test_times_of_a_request_are_checked(
    runner: JobRunner, field: str, value: Any, pointer: str, code: str
) -> None:
    runner.define({"stepName": "a"})
    answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", field: value})
    assert answer.status == 422
    assert (pointer, code) in [(each["pointer"], each["code"]) for each in answer.json["faults"]]


TEMPLATED = {
    "stepName": "sum",
    "stepType": "PACK",
    "packConf": {"size": "{{ params.size }}", "start": 0, "end": "{{ params.last }}", "maxTaskCount": 1},
    "content": "sum {{ pack.start }} {{ pack.end }}",
}


def test_a_pack_conf_can_have_templates_over_parameters(runner: JobRunner) -> None:
    runner.define(TEMPLATED, {"stepName": "end", "dependentStep": "sum"}, params={"size": "100", "last": 925})
    runner.submit(params={"last": "250"}, steps=[{"stepName": "sum", "packConf": {"startPackId": 1}}])
    runner.run(fail_shards(0, step="end"))
    ranges = [{"start": 100, "end": 199}, {"start": 200, "end": 250}]
    assert [task["pack"] for task in runner.step_tasks("sum")] == ranges
    assert [lease.content for lease in runner.leased[:2]] == ["sum 100 199", "sum 200 250"]
    assert runner.task("sum", 2)["sharding"] == {"total": 3, "index": 2}
    runner.post("/v1/jobs/orders/t1:rerun", {})
    runner.run()
    assert [task["pack"] for task in runner.step_tasks("sum")] == ranges


def test_some_packs_of_a_templated_step_run_again(runner: JobRunner) -> None:
    runner.define(TEMPLATED, params={"size": 100, "last": 199})
    runner.submit()
    runner.run(fail_shards(1))
    runner.post("/v1/jobs/orders/t1:rerun", {})
    assert runner.run()["state"] == "SUCCESS"
    assert runner.leased[-1].content == "sum 100 199"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"size": "x"}, "packConf.size must be an integer, not x"),
        ({"size": 0}, "packConf has the size 0 and the range 0 to 9"),
        ({"last": -1}, "packConf has the size 1 and the range 0 to -1"),
        ({"last": 10**7}, "packConf results in 10000001 tasks; the maximum is 1000000"),
    ],
)
def test_a_pack_conf_that_yields_no_range_is_rejected(
    runner: JobRunner, params: dict[str, Any], said: str
) -> None:
    runner.define(TEMPLATED, params={"size": 1, "last": 9})
    request = {"jobName": "orders", "trigger": "t", "params": params}
    [fault] = runner.cloud.http("POST", "/v1/jobs", request).json["faults"]
    assert (fault["pointer"], fault["code"]) == ("/params", "bad-template")
    assert fault["message"] == f"step sum: {said}"


def test_a_pack_conf_can_have_templates_over_the_output_of_a_step(runner: JobRunner) -> None:
    pack = {"size": 2, "start": 0, "end": "{{ steps.count.output }}"}
    runner.define({"stepName": "count"}, {"stepName": "sum", "dependentStep": "count", "packConf": pack})
    runner.submit()
    runner.worker.report(runner.take(1), "success", output=4)
    assert runner.run()["state"] == "SUCCESS"
    assert [task["pack"] for task in runner.step_tasks("sum")][-1] == {"start": 4, "end": 4}
