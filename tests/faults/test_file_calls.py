"""Fail each AWS call for files once: the Job ends with the same result.

Reads are stale, Lambda invocations are throttled, queues are unreliable, and the worker's clock is wrong, in
every run."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import Rerun, everywhere_once
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.file_worker import FileWorker, place
from support.scenarios.hostile_aws import hostile_aws
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_clock import SkewedClock

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled, TooManyRequests)
SKEW_MS = 3_000
TRIES = 3
TEXT = b"".join(b"line %d\n" % number for number in range(30))
CALLS_OF_A_KIND = 3  # further tasks make the same calls
READS = {"HeadObject", "GetObject", "ListMultipartUploads"}
COUNT = {
    "stepName": "part",
    "content": "x",
    "sharding": 3,
    "inputs": [{"name": "text"}],
    "partition": {"input": "text"},
    "outputs": [{"name": "part-{{ shard.index }}"}],
}
JOIN = {
    "stepName": "join",
    "content": "x",
    "inputs": [{"name": "all", "origin": "part", "pattern": "part-*"}],
    "outputs": [{"name": "all"}],
}


class PersistentFileWorker:
    """Submits until it is accepted, and transfers the files of the tasks that it leases."""

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.file_worker = FileWorker(runner)
        self.minutes = 0.0
        self.accepted = False

    def act(self) -> None:
        self.minutes += 0.2
        with suppress(*FAULTS, AssertionError):
            if not self.accepted:
                self._submit()
        for lease in self.runner.worker.take():
            for _ in range(TRIES):  # without success, the task is delivered again after its lease
                with suppress(*FAULTS, AssertionError):
                    data = b"".join(self.file_worker.fetch(lease).values())
                    name = "all" if lease.step_name == "join" else f"part-{lease.sharding.index}"
                    self.file_worker.end(lease, {name: data})
                    break
        with suppress(*FAULTS):
            self.runner.tick(self.minutes)

    def _submit(self) -> None:
        request = {"size": len(TEXT), "sha256": hashlib.sha256(TEXT).hexdigest()}
        answer = self.runner.cloud.http("POST", "/v1/uploads", request)
        assert answer.status == 200
        upload = answer.json
        if not upload["present"]:
            self.file_worker.s3.put_object(**place(upload["url"]), Body=TEXT)
        files = [{"name": "text", "upload": upload["upload"], "size": len(TEXT)}]
        job: dict[str, Any] = {"jobName": "orders", "trigger": "t1", "files": files}
        self.accepted = self.runner.cloud.http("POST", "/v1/jobs", job).status in (200, 202)


def is_for_files(call: Call) -> bool:
    """Whether a call transfers files or writes the rows of their outputs."""
    return call.service == "s3" or call.operation == "BatchWriteItem"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_job_with_files_succeeds_when_any_single_call_fails(how: Any) -> None:
    seen: Counter[str] = Counter()

    def only(call: Call) -> bool:
        if not is_for_files(call) or (how != "before" and call.operation in READS):
            return False
        seen[call.name] += 1
        return seen[call.name] <= CALLS_OF_A_KIND

    assert sum(1 for run in everywhere_once(ways=(how,), only=only) if _succeeds(run)) > 3


def _succeeds(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = _prepare(cloud)
        worker = PersistentFileWorker(runner)
        with run.armed() as faults, hostile_aws(cloud, faults, seed=5):
            cloud.run_until(lambda: worker.accepted and runner.ended(), 60, meanwhile=worker.act)
        job = runner.job()
        assert job["state"] == "SUCCESS", job["notes"]
        [joined] = worker.file_worker.listed(name="all")
        assert worker.file_worker.read(joined["url"]) == TEXT
        assert len(worker.file_worker.listed(step="part")) == 3
        stored = worker.file_worker.s3.list_objects_v2(Bucket=worker.file_worker.bucket, Prefix="files/")
        assert {each["Key"].split("/")[1] for each in stored["Contents"]} == {job["id"]}  # no orphans
    return True


def _prepare(cloud: Cloud) -> JobRunner:
    runner = JobRunner(cloud)
    runner.quick_group()
    runner.worker.clock = SkewedClock(runner.worker.clock, SKEW_MS)
    # The worker sends no heartbeats, and with these faults a task can take longer than a lease of a second.
    runner.define(COUNT, JOIN, workerGroup="quick", lostRetries=100)
    return runner
