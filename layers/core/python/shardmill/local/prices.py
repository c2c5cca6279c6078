"""The estimated cost of a Job on AWS: counted operations times list prices.

The cost of running the tasks, on your own machines or on Lambda, is not included.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.model.blocks import MAX_SENT_AT_OPENING
from shardmill.model.job import Job

AS_OF = "2025-11"
REGION = "us-east-1"
USD_PER_MILLION = {
    "Step Functions transitions": 25.00,
    "Lambda requests": 0.20,
    "Lambda GB-seconds": 16.6667,
    "DynamoDB write units": 0.625,
    "DynamoDB read units": 0.125,
    "SQS requests": 0.40,
    "HTTP API requests": 1.00,
    "EventBridge events": 1.00,
}

# The path through statemachine/*.asl.json when nothing fails and the call that frees a step opens it.
# Starting an execution is a transition too.
JOB_STATES = 1
STEP_STATES = 3
FAN_OUT_STATES = 2  # of a large step: the Map, and the range of its first window
STARTED = 1

# Each API call also invokes the authorizer.
LAMBDAS_PER_API_CALL = 2
LAMBDA_SECONDS = 0.1
LAMBDA_GB = 0.5

# Rows and index entries, each below 1 KB. In the worst case a block's row, up to 2 KB, is written for each
# lease and each report of a task. A task that printed something has a row of its own.
WRITES_PER_JOB = 40
WRITES_PER_STEP = 12
WRITES_PER_TASK = 5
READS_PER_STEP = 20
READS_PER_TASK = 2
READS_PER_API_CALL = 6
SQS_PER_TASK = 0.3  # sent, received and deleted ten at a time
EVENTS_PER_JOB = 1


@dataclass(frozen=True, slots=True)
class Item:
    what: str
    count: float
    usd: float


def bill(job: Job, api_calls: int) -> list[Item]:
    """The operations of a finished Job, by kind, and their cost."""
    steps = len(job.steps)
    tasks = sum(step.total_work for step in job.steps)
    large = sum(step.total_work > MAX_SENT_AT_OPENING for step in job.steps)
    orchestrated = 1 + steps + large  # plan; close; enqueue
    lambdas = orchestrated + LAMBDAS_PER_API_CALL * api_calls
    counts = {
        "Step Functions transitions": STARTED
        + JOB_STATES
        + steps * (STARTED + STEP_STATES)
        + large * FAN_OUT_STATES,
        "Lambda requests": lambdas,
        "Lambda GB-seconds": lambdas * LAMBDA_SECONDS * LAMBDA_GB,
        "DynamoDB write units": WRITES_PER_JOB + WRITES_PER_STEP * steps + WRITES_PER_TASK * tasks,
        "DynamoDB read units": READS_PER_STEP * steps
        + READS_PER_TASK * tasks
        + READS_PER_API_CALL * api_calls,
        "SQS requests": SQS_PER_TASK * tasks,
        "HTTP API requests": api_calls,
        "EventBridge events": EVENTS_PER_JOB,
    }
    return [Item(what, count, count * USD_PER_MILLION[what] / 1e6) for what, count in counts.items()]


def total(items: list[Item]) -> float:
    return sum(item.usd for item in items)
