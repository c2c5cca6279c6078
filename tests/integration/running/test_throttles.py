"""Lambda throttles the state machines: steps wait, and none fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.engine.running import open_ahead
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults
from support.moto.template import Template
from support.paths import PROJECT
from support.scenarios.job_runner import JobRunner, fail_shards

THROTTLES = 8
"""More than the retries of other errors; moto's executions wait a fiftieth of the intervals."""


def action_of(call: Call) -> str:
    payload = call.params.get("Payload", b"{}")
    return str(json.loads(payload).get("action"))


def throttle(faults: Faults, action: str, times: int = THROTTLES) -> Any:
    return faults.fail(
        "lambda", "Invoke", how="throttle", times=times, when=lambda call: action_of(call) == action
    )


@pytest.mark.parametrize("action", ["plan", "open", "enqueue", "close"])
def test_a_job_succeeds_after_throttles(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    if action == "open":
        monkeypatch.setattr(open_ahead, "MAX_OPENED", 0)
    fault = throttle(faults, action)
    runner.define({"stepName": "a", "sharding": 101})
    runner.submit()
    assert runner.run(timeout=60)["state"] == "SUCCESS"
    assert fault.hits == THROTTLES


@pytest.mark.parametrize("action", ["sweep", "fail"])
def test_a_failed_step_ends_after_throttles(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    fault = throttle(faults, action)
    if action == "fail":
        monkeypatch.setattr("shardmill.engine.running.close_step._final_state", None)
    runner.define({"stepName": "a", "sharding": 3, "failFast": True})
    runner.submit()
    runner.cloud.run_until(
        lambda: runner.row(0).token, 60
    )  # without it, the execution sees the end of the tasks
    job = runner.run(fail_shards(0), timeout=60)
    assert fault.hits == THROTTLES
    assert job["state"] == "FAILED"
    assert "TooManyRequests" not in job["notes"]


def test_a_step_waits_for_messages_that_could_not_be_sent_for_hours(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The execution gives up sending and waits for its tasks; the tick sends what is missing."""
    document = json.loads((PROJECT / "statemachine" / "step.asl.json").read_text())
    enqueue = document["States"]["Fan out"]["ItemProcessor"]["States"]["Enqueue"]
    enqueue["Retry"][0]["MaxAttempts"] = 1
    definition = json.dumps(document)
    for name, value in {
        "OrchestrateFunctionArn": _orchestrate(runner),
        "TableName": runner.cloud.table,
    }.items():
        definition = definition.replace(f"${{{name}}}", value)
    runner.cloud.clients.stepfunctions.update_state_machine(
        stateMachineArn=runner.cloud.stack.machines["step"], definition=definition
    )
    throttle(faults, "enqueue", 10**6)
    runner.define({"stepName": "a", "sharding": 101})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    runner.later(180)
    runner.worker.beat([])
    runner.tick(minutes=3)
    assert runner.run(timeout=60)["state"] == "SUCCESS"


@pytest.mark.parametrize("noticed_by", ["event", "tick"])
def test_a_step_is_closed_if_its_execution_ends_after_its_tasks(
    runner: JobRunner, faults: Faults, noticed_by: str
) -> None:
    throttle(faults, "close", 10**6)
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    runner.worker.report(runner.take(1))
    [step] = runner.cloud.executions("step")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    faults.clear_faults()
    runner.cloud.settle() if noticed_by == "event" else runner.tick(minutes=11)  # a long silence
    assert runner.run()["state"] == "SUCCESS"


def _orchestrate(runner: JobRunner) -> str:
    return f"arn:aws:lambda:us-east-1:123456789012:function:{runner.cloud.functions.physical['orchestrate']}"


def _tasks(states: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [
        task
        for state in states.values()
        if "ItemProcessor" in state
        for task in _tasks(state["ItemProcessor"]["States"])
    ]
    return inner + [state for state in states.values() if state["Type"] == "Task"]


@pytest.mark.parametrize("machine", ["job", "step"])
def test_every_task_retries_throttles_for_hours(machine: str) -> None:
    """With full jitter, a retry waits half of MaxDelaySeconds on average."""
    document = json.loads((PROJECT / "statemachine" / f"{machine}.asl.json").read_text())
    for task in _tasks(document["States"]):
        service = "Lambda.TooManyRequestsException"
        if "dynamodb" in task["Resource"]:
            service = "DynamoDb.ProvisionedThroughputExceededException"
        first = next(r for r in task["Retry"] if {service, "States.ALL"} & set(r["ErrorEquals"]))
        assert first["MaxAttempts"] * first["MaxDelaySeconds"] / 2 >= 3 * 3600, task
        assert "States.ALL" not in first["ErrorEquals"]


def test_the_concurrency_of_lambda_workers_is_limited() -> None:
    """By what is reserved, if anything is: Lambda throttles an event source mapping with a higher limit."""
    document = Template.read(Path(PROJECT / "template.yaml"), {}, {"AdminTokenHash": "0" * 64}).document
    [mapping] = [
        resource["Properties"]
        for resource in document["Resources"].values()
        if resource["Type"] == "AWS::Lambda::EventSourceMapping"
        and "RunnerFunction" in str(resource["Properties"]["FunctionName"])
    ]
    reserved = {"Ref": "RunnerReservedConcurrency"}
    limit = ["ReservesConcurrency", reserved, {"Ref": "RunnerConcurrency"}]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Fn::If": limit}}
    function = document["Resources"]["RunnerFunction"]["Properties"]
    without = {"Ref": "AWS::NoValue"}
    assert function["ReservedConcurrentExecutions"] == {"Fn::If": ["ReservesConcurrency", reserved, without]}
