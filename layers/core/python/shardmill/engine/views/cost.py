"""The cost of a Job on AWS so far, from the counters of its steps."""

from __future__ import annotations

from shardmill.engine.mill import Mill
from shardmill.model.cost.aws_operations import StepLoad, operations
from shardmill.model.cost.prices import Cost, bill
from shardmill.model.job import Job, Step
from shardmill.model.states import TaskState

LEASED = (TaskState.RUNNING, TaskState.SUCCESS, TaskState.FAILED)


def cost_so_far(mill: Mill, job: Job) -> Cost:
    """Estimate the cost of the steps that have started and the tasks that were leased, each once."""
    kinds = {name: _kind(mill, name) for step in job.steps for name in step.worker_groups}
    return cost_of_steps([step for step in job.steps if step.started_time], kinds)


def cost_of_steps(steps: list[Step], kinds: dict[str, str], api_requests: int = 1) -> Cost:
    """The cost of steps, including the computing time of steps that Lambda runs."""
    loads = [
        StepLoad(
            sum(step.counts.get(state, 0) for state in LEASED),
            prints=step.type != "noop",
            lambda_seconds=step.compute_time
            if any(kinds.get(name) == "lambda" for name in step.worker_groups)
            else None,
        )
        for step in steps
    ]
    return bill(operations(loads, api_requests), operations(loads, api_requests, scattered=True))


def _kind(mill: Mill, name: str) -> str:
    group = mill.groups.get(name)
    return group.kind if group else ""
