"""What a Job would have cost on AWS: what is counted of it, times list prices.

The tasks themselves are not in it: they run on machines of your own, or as Lambda of the group `lambda`.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.model.blocks import RANGE_SIZE
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

# statemachine/*.asl.json, the way that a Job takes when nothing fails; the start of an execution counts too.
JOB_STATES = 1
STEP_STATES = 4  # and one for each range of tasks
STARTED = 1

# Of our own functions: the authorizer stands before the API.
LAMBDAS_PER_API_CALL = 2
LAMBDA_SECONDS = 0.1
LAMBDA_GB = 0.5

# Rows and indices that change, each below 1 KB; a block's row is up to 2 KB and is, at the worst, leased and
# reported once a task; a task that printed something has a row of its own.
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
    """Each kind of thing that a finished Job used, and what it costs."""
    steps = len(job.steps)
    tasks = sum(step.total_work for step in job.steps)
    ranges = sum(-(-step.total_work // RANGE_SIZE) for step in job.steps)
    orchestrated = 1 + 2 * steps + ranges  # plan; open and close; enqueue
    lambdas = orchestrated + LAMBDAS_PER_API_CALL * api_calls
    counts = {
        "Step Functions transitions": STARTED + JOB_STATES + steps * (STARTED + STEP_STATES) + ranges,
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
