"""Estimate the cost of a run of a definition, and the AWS quota that it reaches first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from shardmill.model.base import Answer
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.cost.aws_operations import BATCH, DEFAULT_WINDOW, StepLoad, operations
from shardmill.model.cost.prices import Cost, bill
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.definition.task_count import total

# Default quotas of the large regions, such as us-east-1 and eu-west-1; docs/scale.md has the others.
STARTS_PER_SECOND = 300
TRANSITIONS_PER_SECOND = 5_000
EVENTS_PER_SECOND = 10_000
CONCURRENT_LAMBDAS = 1_000
MESSAGES_IN_FLIGHT = 120_000
PARTITION_WRITES_PER_SECOND = 1_000
TASKS_PER_SECOND = 10_000  # docs/decisions/0014: a step's rows are spread over partitions
LAMBDA_WORKERS = 100  # of a lane: the parameter RunnerConcurrency
WRITES_IN_PARTITION_OF_DEFINITION = 2
LAMBDA_SECONDS_PER_JOB = 0.5
LAMBDA_GROUP = "lambda"


class Quota(Answer):
    """A limit, and how much of it one job takes."""

    name: str
    limit: float
    used: float
    share: float = Field(description="used of the limit, by one job, or by one job a second")
    per_second: bool = Field(description="whether the limit is a rate, so that jobs per second count")


class Estimate(Answer):
    job_name: str
    tasks: dict[str, int] = Field(description="by step")
    assumed: list[str] = Field(description="steps whose number of tasks is not known before they run")
    cost: Cost
    quotas: list[Quota] = Field(description="the first that is met comes first")


def estimate(define: JobDefine, sharding: Mapping[str, int]) -> Estimate:
    """Estimate a run in which every task succeeds at once; an unknown number of tasks counts as one."""
    known = {step.step_name: sharding.get(step.step_name, total(step)) for step in define.steps}
    loads = {
        step.step_name: _load(define, step, 1 if count is None else count)
        for step in define.steps
        for count in [known[step.step_name]]
    }
    steps = list(loads.values())
    return Estimate(
        job_name=define.job_name,
        tasks={name: load.tasks for name, load in loads.items()},
        assumed=[name for name, count in known.items() if count is None],
        cost=bill(operations(steps), operations(steps, scattered=True)),
        quotas=quotas(steps),
    )


def _load(define: JobDefine, step: StepDefine, tasks: int) -> StepLoad:
    on_lambda = LAMBDA_GROUP in (step.worker_groups or define.worker_groups)
    return StepLoad(
        tasks,
        step.max_task_count or DEFAULT_WINDOW,
        prints=step.type != "noop",
        lambda_seconds=0.0 if on_lambda else None,
    )


def quotas(steps: Sequence[StepLoad]) -> list[Quota]:
    """The quotas that a Job uses, the one with the largest share first."""
    counts = operations(steps)
    largest = max((step.tasks for step in steps), default=0)
    rates = {
        "Step Functions StartExecution": (STARTS_PER_SECOND, 1 + len(steps)),
        "Step Functions transitions": (TRANSITIONS_PER_SECOND, counts["Step Functions transitions"]),
        "EventBridge PutEvents": (EVENTS_PER_SECOND, counts["EventBridge events"]),
        "Lambda concurrency": (CONCURRENT_LAMBDAS, LAMBDA_SECONDS_PER_JOB),
        "DynamoDB writes for one definition": (
            PARTITION_WRITES_PER_SECOND,
            WRITES_IN_PARTITION_OF_DEFINITION,
        ),
        "DynamoDB writes for the tasks of one step": (TASKS_PER_SECOND, largest),
    }
    sizes = {
        "SQS messages in flight": (MESSAGES_IN_FLIGHT, max((step.queued for step in steps), default=0)),
        "Shardmill tasks of a step": (MAX_SHARDS, largest),
    }
    on_lambda = [step.queued for step in steps if step.lambda_seconds is not None]
    if on_lambda:
        sizes["Lambda workers of a lane"] = (LAMBDA_WORKERS, -(-max(on_lambda) // BATCH))
    found = [
        Quota(name=name, limit=limit, used=used, share=used / limit, per_second=name in rates)
        for name, (limit, used) in {**rates, **sizes}.items()
    ]
    return sorted(found, key=lambda quota: -quota.share)
