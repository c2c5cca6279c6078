"""The estimate of a job's operations beside what the meter counts in a run on moto."""

from collections import Counter
from typing import Any

import pytest

from shardmill.model.cost.estimate import estimate
from shardmill.model.definition.validation import check_definition
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.watch import observing

DYNAMODB = {"DynamoDB write units": 0.1, "DynamoDB read units": 0.2}
"""How far the estimate may be from the meter: rows of blocks grow with the digits of their times."""


@pytest.mark.parametrize(
    ("shards", "kind", "content"),
    [([1], "noop", None), ([12, 1], "shell", "echo x"), ([130], "noop", None)],
)
def test_the_estimate_agrees_with_the_metered_run(
    runner: JobRunner, shards: list[int], kind: str, content: str | None
) -> None:
    steps = [
        {"stepName": f"s{at}", "sharding": count, "type": kind, "content": content}
        | ({"dependentStep": f"s{at - 1}"} if at else {})
        for at, count in enumerate(shards)
    ]
    define, faults = check_definition({"jobName": "orders", "steps": steps})
    assert define, faults
    runner.define(*steps)
    measured = metered(runner, {} if kind == "noop" else {"stdout": "x" * 200})
    estimated = {item.what: item.count for item in estimate(define, {}).cost.items}
    del estimated["Lambda GB-seconds"]  # moto's functions do not take the time of AWS's
    assert set(measured) == set(estimated)
    for what, count in measured.items():
        assert estimated[what] == pytest.approx(count, rel=DYNAMODB.get(what, 0)), what


def metered(runner: JobRunner, result: dict[str, Any]) -> dict[str, float]:
    """Submit a job and work until its end is published; count what AWS bills."""
    cloud, invoked = runner.cloud, Counter[str]()
    invoke = cloud.functions.invoke

    def counted(name: str, *arguments: Any, **more: Any) -> Any:
        invoked[name] += 1
        return invoke(name, *arguments, **more)

    cloud.functions.invoke = counted  # type: ignore[method-assign]
    received = 0

    def work() -> None:
        nonlocal received
        with observing():
            waiting = any(map(_visible, runner.mill.groups.get("default").queues))  # type: ignore[union-attr]
        if waiting:
            leases = runner.worker.take()
            received += bool(leases)
            runner.worker.report(leases, count_now=False, **result)

    def _visible(url: str) -> bool:
        name = "ApproximateNumberOfMessages"
        found = cloud.clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
        return found["Attributes"][name] != "0"

    with Faults(weigh=True, rules=False) as faults:
        runner.submit()
        cloud.run_until(lambda: runner.row(0).token, 30)
        cloud.run_until(runner.ended, 50, meanwhile=work)
        cloud.run_until(lambda: not runner.mill.jobs.find("orders", "t1").event_pending)  # type: ignore[union-attr]
        events = [event for event in cloud.deliver_job_ends() if event["source"] == "shardmill"]
        cloud.wait_for_executions()
    executions = cloud.executions()
    calls = faults.meter.calls
    return {
        "Step Functions transitions": len(executions)
        + sum(cloud.transitions(each["executionArn"]) for each in executions),
        "Lambda requests": invoked["orchestrate"] + invoked["dependency"] + 2,  # the API and its authorizer
        "DynamoDB write units": faults.meter.total_write_units,
        "DynamoDB read units": faults.meter.total_read_units,
        "SQS requests": calls["sqs.SendMessageBatch"] + received + calls["sqs.DeleteMessageBatch"],
        "HTTP API requests": 1,
        "EventBridge events": len(events),
    }
