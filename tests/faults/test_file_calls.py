"""Fail each AWS call for a file in turn: the Job ends with the same result."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import Rerun, everywhere_once
from support.fakes.lambda_server import FunctionError
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.file_worker import FileWorker, place
from support.scenarios.job_runner import JobRunner

FAULTS = (ClientError, BotoCoreError, FunctionError, ProcessKilled)
TEXT = b"".join(b"line %d\n" % number for number in range(30))
MOST_ALIKE = 3  # calls of a kind: the third task asks as the first did
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


class Carrier:
    """Asks until it is answered, and carries the files of whatever it can lease."""

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
            with suppress(*FAULTS, AssertionError):  # it is lost then, and comes back after its lease
                data = b"".join(self.file_worker.fetch(lease).values())
                name = "all" if lease.step_name == "join" else f"part-{lease.sharding.index}"
                self.file_worker.end(lease, {name: data})
        with suppress(*FAULTS):
            self.runner.tick(self.minutes)

    def _submit(self) -> None:
        wish = {"size": len(TEXT), "sha256": hashlib.sha256(TEXT).hexdigest()}
        answer = self.runner.cloud.http("POST", "/v1/uploads", wish)
        assert answer.status == 200
        upload = answer.json
        if not upload["present"]:
            self.file_worker.s3.put_object(**place(upload["url"]), Body=TEXT)
        files = [{"name": "text", "upload": upload["upload"], "size": len(TEXT)}]
        request: dict[str, Any] = {"jobName": "play", "trigger": "t1", "files": files}
        self.accepted = self.runner.cloud.http("POST", "/v1/jobs", request).status in (200, 202)


def chosen(call: Call) -> bool:
    """Calls of the engine for files, and the rows that say what an attempt left."""
    return call.service == "s3" or call.operation == "BatchWriteItem"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["before", "after"])
def test_files_come_through(how: Any) -> None:
    seen: Counter[str] = Counter()

    def only(call: Call) -> bool:
        if not chosen(call) or (how != "before" and call.operation in READS):
            return False
        seen[call.name] += 1
        return seen[call.name] <= MOST_ALIKE

    assert sum(1 for run in everywhere_once(hows=(how,), only=only) if _survives(run)) > 3


def _survives(run: Rerun) -> bool:
    with run, moto_cloud() as cloud:
        runner = _prepared(cloud)
        carrier = Carrier(runner)
        with run.armed():
            cloud.run_until(lambda: carrier.accepted and runner.ended(), 60, meanwhile=carrier.act)
        job = runner.job()
        assert job["state"] == "SUCCESS", job["notes"]
        [joined] = carrier.file_worker.listed(name="all")
        assert carrier.file_worker.read(joined["url"]) == TEXT
        assert len(carrier.file_worker.listed(step="part")) == 3
    return True


def _prepared(cloud: Cloud) -> JobRunner:
    runner = JobRunner(cloud)
    runner.quick_group()
    runner.define(COUNT, JOIN, workerGroup="quick")
    return runner
