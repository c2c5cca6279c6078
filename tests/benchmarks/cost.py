"""AWS calls, write units and cost per task, counted on moto."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.result import Result
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.tasks.lease import lease
from shardmill.model.cost.aws_operations import StepLoad, operations
from shardmill.model.cost.prices import total
from support.aws_rules.faults import Faults
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner


def measure(_: Path) -> Iterator[Result]:
    yield from _orchestration()
    calls, units, cost = _drive(640, scattered=False)
    in_order = cost
    yield Result("AWS calls per no-op task, direct worker, in order", calls, "calls", at_most=0.6)
    yield Result("write units per no-op task, in order", units, "units", at_most=0.4)
    yield Result("AWS bill per million no-op tasks, in order", cost, "USD", at_most=0.4)
    calls, units, cost = _drive(640, scattered=True)
    yield Result("AWS calls per no-op task, scattered", calls, "calls")
    yield Result("write units per no-op task, scattered", units, "units", at_most=2)
    yield Result("AWS bill per million no-op tasks, scattered", cost, "USD", at_most=1.5)
    estimated = total(operations([StepLoad(1_001_000, prints=False)])) - total(
        operations([StepLoad(1_000, prints=False)])
    )
    yield Result(
        "the estimate of a million more tasks, relative to the bill in order", estimated / in_order, "x"
    )
    few, many = _drive(100, scattered=False)[2], _drive(500, scattered=False)[2]
    yield Result(
        "cost per task, 500 shards relative to 100",
        many / few,
        "x",
        at_most=1.1,
    )


def _orchestration() -> Iterator[Result]:
    """Count what the state machines do for a Job of one task, and for one with two steps more."""
    (calls, transitions), (more_calls, more_transitions) = _chain(1), _chain(3)
    yield Result("state transitions of a one-task job", transitions, "", at_most=6)
    yield Result("state transitions of a further step", (more_transitions - transitions) / 2, "", at_most=4)
    yield Result("Lambda calls of a further step", (more_calls - calls) / 2, "calls", at_most=2)


def _chain(length: int) -> tuple[int, int]:
    """Run a chain of one-task steps; return the Lambda calls and the transitions of its state machines."""
    with moto_cloud() as cloud:
        runner = JobRunner(cloud)
        names = [f"s{number}" for number in range(length)]
        before = [{"dependentSteps": names[max(0, at - 1) : at]} for at in range(length)]
        runner.define(*({"stepName": name} | each for name, each in zip(names, before, strict=True)))
        runner.submit()
        runner.run()
        cloud.wait_for_executions()
        executions = [*cloud.executions("job"), *cloud.executions("step")]
        calls = [function for function, _ in cloud.functions.invoked if function == "orchestrate"]
        # AWS also counts the start of an execution.
        return len(calls), sum(1 + cloud.transitions(each["executionArn"]) for each in executions)


def _drive(shards: int, *, scattered: bool) -> tuple[float, float, float]:
    """Run a no-op step in batches of ten; return calls, units per task and USD per million tasks."""
    with moto_cloud() as cloud, Faults(weigh=True, rules=False) as faults:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a", "sharding": shards, "maxTaskCount": shards})
        runner.submit()
        cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 60)
        messages = []
        while found := runner.worker.receive():
            messages += found
        order = Random(7) if scattered else None
        if order:
            order.shuffle(messages)
        receives = -(-len(messages) // 10)
        faults.meter.reset()
        for at in range(0, len(messages), 10):
            batch = messages[at : at + 10]
            leases = lease(runner.mill, WorkerSession.of(runner.worker.row), batch, runner.worker.clock())
            runner.worker.report(leases, count_now=False)  # a heartbeat writes the totals
        sends = -(-shards // 10)
        calls = faults.meter.calls
        sqs = sum(count for name, count in calls.items() if name.startswith("sqs.")) + receives + sends
        reads = sum(
            count for name, count in calls.items() if name in ("dynamodb.GetItem", "dynamodb.BatchGetItem")
        )
        units = faults.meter.total_write_units
        counts = {
            "SQS requests": sqs,
            "DynamoDB write units": units,
            "DynamoDB read units": reads * 2,
        }
        usd = total(counts) * 1e6 / shards
        return (calls.total() + receives + sends) / shards, units / shards, usd
