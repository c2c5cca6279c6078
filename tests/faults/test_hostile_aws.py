"""A Job succeeds with stale reads, throttles, unreliable queues and a wrong clock; each task ends once."""

import os
import time
from contextlib import suppress

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.aws_rules.faults import Faults
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.scenarios.hostile_aws import hostile_aws
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_clock import SkewedClock
from support.scenarios.manual_worker import ManualWorker

FAULTS = (ClientError, BotoCoreError, FunctionError, TooManyRequests)
SEEDS = range(int(os.environ.get("HOSTILE_SEEDS", "4")))
REQUEST = {"jobName": "orders", "trigger": "t1"}


def now_ms() -> int:
    return int(time.time() * 1000)


class TwoWorkers:
    """Submits until it is accepted; then two workers, one with a wrong clock, work in turn."""

    def __init__(self, runner: JobRunner, skew_ms: int) -> None:
        self.runner = runner
        self.minutes = 0.0
        self.submitted = False
        wrong = ManualWorker(runner.mill, "wrong-clock", ["quick"])
        wrong.clock = SkewedClock(now_ms, skew_ms)
        self.workers = [runner.worker, wrong]

    def act(self) -> None:
        self.minutes += 0.2
        cloud = self.runner.cloud
        with suppress(*FAULTS):
            if not self.submitted:
                self.submitted = cloud.http("POST", "/v1/jobs", REQUEST).status in (200, 202)
        for worker in self.workers:
            with suppress(*FAULTS):
                worker.work()
        with suppress(*FAULTS):
            self.runner.tick(self.minutes)
        with suppress(*FAULTS):
            cloud.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_succeeds_with_stale_reads_throttles_and_unreliable_queues(
    cloud: Cloud, faults: Faults, seed: int
) -> None:
    runner = JobRunner(cloud)
    runner.quick_group()
    runner.define(
        {"stepName": "a", "sharding": 4, "maxTaskCount": 3},
        {"stepName": "b", "dependentStep": "a"},
        {"stepName": "c", "phase": 1},
        workerGroup="quick",
    )
    workers = TwoWorkers(runner, skew_ms=(3_000, -3_000)[seed % 2])
    with hostile_aws(cloud, faults, seed) as day:
        cloud.run_until(lambda: workers.submitted and runner.ended(), 60, meanwhile=workers.act)
    assert day.throttles + day.stale.outdated > 0
    job = runner.job()
    assert job["state"] == "SUCCESS", job["notes"]
    assert [step["counts"] for step in job["steps"]] == [{"SUCCESS": 4}, {"SUCCESS": 1}, {"SUCCESS": 1}]
    assert len(cloud.http("GET", "/v1/jobs").json["items"]) == 1
