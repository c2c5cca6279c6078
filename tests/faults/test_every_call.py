"""Fail or crash at each AWS call once: no task is lost or ends twice, the Job succeeds.

In every run, reads are stale, Lambda invocations are throttled, queues are unreliable, and the clocks of the
workers are wrong."""

import os
from contextlib import suppress
from itertools import count

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import How, Rerun, everywhere_once
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.hostile_aws import hostile_aws
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_clock import SkewedClock
from support.scenarios.manual_worker import ManualWorker

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled, TooManyRequests)
WAYS: tuple[How, ...] = ("before", "after", "crash")
EVERY_FAULT = bool(os.environ.get("SHARDMILL_EVERY_FAULT"))
READS = {"GetItem", "BatchGetItem", "Query", "ReceiveMessage", "GetQueueAttributes", "DescribeExecution"}
REQUEST = {"jobName": "orders", "trigger": "t1"}
SEED = 5
SKEW_MS = 3_000


class RestartedWorker:
    """A worker that is replaced by another at any fault; each round advances the clock of the tick.

    The clocks of the workers are alternately ahead and behind."""

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.minutes = 0.0
        self.restarts = 0
        self.submitted = False
        self.states: set[str] = set()
        self._set_clock()

    def act(self) -> None:
        self.minutes += 0.2
        with suppress(*FAULTS):
            if not self.submitted:
                self.submitted = self.runner.cloud.http("POST", "/v1/jobs", REQUEST).status in (200, 202)
        try:
            self.runner.work()
        except FAULTS:
            self._restart()
        with suppress(*FAULTS):
            self.runner.tick(self.minutes)
        with suppress(*FAULTS):
            self.runner.cloud.settle()

    def published_states(self) -> set[str]:
        """Run the tick; return the states of all published events. Duplicates are allowed."""
        self.minutes += 2
        self.runner.tick(self.minutes)
        events = [event for event in self.runner.cloud.published() if event["source"] == "shardmill"]
        self.states |= {event["detail"]["state"] for event in events}
        return self.states

    def _restart(self) -> None:
        with suppress(*FAULTS):
            self.restarts += 1
            self.runner.worker = ManualWorker(self.runner.mill, f"restart-{self.restarts}", ["quick"])
            self._set_clock()

    def _set_clock(self) -> None:
        worker = self.runner.worker
        worker.clock = SkewedClock(worker.clock, -SKEW_MS if self.restarts % 2 else SKEW_MS)


def prepare(cloud: Cloud) -> JobRunner:
    runner = JobRunner(cloud)
    runner.quick_group()
    runner.define(
        {"stepName": "a", "sharding": 3, "maxTaskCount": 2},
        {"stepName": "b", "dependentStep": "a"},
        workerGroup="quick",
        priority=5,  # its lane is added when the first step opens
    )
    return runner


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(len(WAYS)), ids=WAYS)
def test_a_job_succeeds_when_any_single_call_fails(part: int) -> None:
    """A third of the calls fails in each of three ways; with SHARDMILL_EVERY_FAULT=1 all fail in all ways."""
    numbers, reads = count(), count()

    def only(call: Call) -> bool:
        if EVERY_FAULT:
            return True
        if call.operation in READS:  # a read has no effect: "after" equals "before", and a sample is enough
            return WAYS[part] == "before" and next(reads) % (2 * len(WAYS)) == 0
        return next(numbers) % len(WAYS) == part

    chosen = everywhere_once(ways=(WAYS[part],), only=only)
    assert sum(1 for run in chosen if _succeeds(run)) > 10


def _succeeds(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = prepare(cloud)
        worker = RestartedWorker(runner)
        with run.armed() as faults, hostile_aws(cloud, faults, SEED):
            cloud.run_until(lambda: worker.submitted and runner.ended(), 60, meanwhile=worker.act)
        job = runner.job()
        assert job["state"] == "SUCCESS", job["notes"]
        assert [step["counts"] for step in job["steps"]] == [{"SUCCESS": 3}, {"SUCCESS": 1}]
        assert len(cloud.http("GET", "/v1/jobs").json["items"]) == 1
        cloud.run_until(lambda: worker.published_states() == {"SUCCESS"}, 10)
    return True
