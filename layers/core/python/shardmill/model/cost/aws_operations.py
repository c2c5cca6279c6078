"""The operations on AWS of a Job, from the number of its steps and tasks.

The numbers were measured on moto, from the submission until the end is published; a test compares them with a
run. A Job with dependents takes one Lambda request more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from shardmill.model.blocks import MAX_SENT_AT_OPENING, RANGE_SIZE

DEFAULT_WINDOW = 1_000
BATCH = 10
"""Tasks are sent, received, leased, reported and deleted ten at a time."""

# The path through statemachine/*.asl.json when nothing fails and the call that frees a step opens it.
# Starting an execution is a transition too.
STARTED = 1
JOB_STATES = 1
STEP_STATES = 3
MAP_STATES = 1

# Rows and index entries. A batch writes its block, up to 2 KB, for the lease and for the report.
WRITES_PER_JOB = 32
WRITES_PER_STEP = 10  # with its first batch
WRITES_PER_BATCH = 3.6
WRITES_PER_SCATTERED_TASK = 1.9
READS_PER_JOB = 12
READS_PER_STEP = 6
READS_PER_BATCH = 1.3
READS_PER_API_REQUEST = 3

LAMBDA_SECONDS = 0.1
ORCHESTRATE_GB = 1.0
RUNNER_GB = 1.0
API_GB = 0.5
AUTHORIZER_GB = 0.25


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The tasks of a step. `prints`: whether each has output, which is stored in a row of its own.

    `lambda_seconds`: the computing time of all tasks, if Lambda runs them."""

    tasks: int
    window: int = DEFAULT_WINDOW
    prints: bool = True
    lambda_seconds: float | None = None

    @property
    def batches(self) -> int:
        return ceil(self.tasks / BATCH)

    @property
    def queued(self) -> int:
        """The most tasks in the queue or running at a time."""
        return min(self.tasks, self.window)

    @property
    def ranges(self) -> int:
        """The invocations that send the first window of a large step."""
        return ceil(self.queued / RANGE_SIZE) if self.queued > MAX_SENT_AT_OPENING else 0

    @property
    def transitions(self) -> int:
        return STARTED + STEP_STATES + (MAP_STATES + self.ranges if self.ranges else 0)


def operations(
    steps: Sequence[StepLoad], api_requests: int = 1, *, scattered: bool = False
) -> dict[str, float]:
    """Count the operations of a Job whose steps all succeed, by the names of the price table.

    `api_requests`: the submission and all other requests to the API."""
    orchestrated = 1 + sum(1 + step.ranges for step in steps)  # plan; close, enqueue
    on_lambda = [step for step in steps if step.lambda_seconds is not None]
    invoked = sum(step.batches for step in on_lambda)
    return {
        "Step Functions transitions": STARTED + JOB_STATES + sum(step.transitions for step in steps),
        "Lambda requests": orchestrated + 2 * api_requests + invoked,  # authorizer, API
        "Lambda GB-seconds": _gb_seconds(orchestrated, api_requests)
        + RUNNER_GB * sum(step.lambda_seconds or 0.0 for step in on_lambda),
        "DynamoDB write units": WRITES_PER_JOB + sum(_writes(step, scattered) for step in steps),
        "DynamoDB read units": READS_PER_JOB
        + sum(READS_PER_STEP + READS_PER_BATCH * max(0, step.batches - 1) for step in steps)
        + READS_PER_API_REQUEST * max(0, api_requests - 1),
        "SQS requests": 3 * sum(step.batches for step in steps),
        "HTTP API requests": api_requests,
        "EventBridge events": 1 + len(steps),
    }


def _writes(step: StepLoad, scattered: bool) -> float:
    tasks = (
        WRITES_PER_SCATTERED_TASK * step.tasks if scattered else WRITES_PER_BATCH * max(0, step.batches - 1)
    )
    return WRITES_PER_STEP + tasks + (step.tasks if step.prints else 0)


def _gb_seconds(orchestrated: int, api_requests: int) -> float:
    return LAMBDA_SECONDS * (ORCHESTRATE_GB * orchestrated + (API_GB + AUTHORIZER_GB) * api_requests)
