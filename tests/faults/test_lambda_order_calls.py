"""Fail or crash at each SQS call while Lambda serves two priorities: no task is lost, none ends twice.

In every run, reads are stale, Lambda invocations are throttled, and queues are unreliable."""

from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from shardmill.model.worker import Lease, Result
from shardmill.worker import lambda_runner
from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import How, Rerun, everywhere_once
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.hostile_aws import hostile_aws
from support.scenarios.job_runner import JobRunner

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled, TooManyRequests)
SEED = 5
WAYS: tuple[How, ...] = ("before", "after", "crash")
JOBS = {"low": 1, "high": 7}


def succeed(task: Lease, *_: Any, **__: Any) -> Result:
    held = {"taskId": task.task_id, "attempt": task.attempt, "receipt": task.receipt}
    return Result.model_validate({**held, "outcome": "success"})


class Scene:
    """Two Jobs, a runner for three tasks at a time, and a tick whose clock runs ahead."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.runner = JobRunner(cloud)
        self.minutes = 0.0
        self.submitted: set[str] = set()
        step = {"stepName": "a", "sharding": 4, "maxTaskCount": 3, "workerGroup": "lambda"}
        self.runner.define(step, lostRetries=9)
        groups = self.runner.mill.groups
        groups.change("lambda", lease_seconds=1, bound=None, now=0)  # shorter than the API allows

    def act(self) -> None:
        for trigger in JOBS.keys() - self.submitted:
            request = {"jobName": "orders", "trigger": trigger, "priority": JOBS[trigger]}
            with suppress(*FAULTS):
                if self.cloud.http("POST", "/v1/jobs", request).status in (200, 202):
                    self.submitted.add(trigger)
        with suppress(*FAULTS):
            self.cloud.serve_lambda_queue(3)
        self.minutes += 0.5
        with suppress(*FAULTS):
            self.runner.tick(self.minutes)
        with suppress(*FAULTS):
            self.cloud.settle()

    def ended(self) -> bool:
        return self.submitted == JOBS.keys() and all(map(self.runner.ended, JOBS))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(len(WAYS)), ids=WAYS)
def test_every_task_ends_once_when_any_sqs_call_fails(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the calls fails in each of three ways."""
    monkeypatch.setattr(lambda_runner, "execute", succeed)
    numbers = count()

    def only(call: Call) -> bool:
        return call.service == "sqs" and next(numbers) % len(WAYS) == part

    chosen = everywhere_once(ways=(WAYS[part],), only=only)
    assert sum(1 for run in chosen if _succeeds(run)) > 3


def _succeeds(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        scene = Scene(cloud)
        with run.armed() as faults, hostile_aws(cloud, faults, SEED):
            cloud.run_until(scene.ended, 60, meanwhile=scene.act)
        for trigger in JOBS:
            job = scene.runner.job(trigger)
            assert job["state"] == "SUCCESS", job["notes"]
            assert job["steps"][0]["counts"] == {"SUCCESS": 4}
    return True
