"""Every role that prepares the files of tasks may read and write them, also those of other buckets."""

from __future__ import annotations

import pytest

from shardmill.engine.files import presign
from shardmill.engine.files.held_attempt import get_held_attempt
from shardmill.model.transfers import StoreRequest, part_ranges
from support.aws_rules.call import running_as
from support.aws_rules.grants import WORKER
from support.scenarios.job_runner import JobRunner

DATA = "shardmill-data-reference"
LARGE = 40_000_000


@pytest.mark.parametrize("role", ["api", "runner", WORKER])
def test_files_of_a_task_are_signed(runner: JobRunner, role: str) -> None:
    s3 = runner.cloud.clients.s3
    s3.create_bucket(Bucket=DATA)
    s3.put_object(Bucket=DATA, Key="in", Body=b"1")
    inputs = [{"name": "in", "s3": {"bucket": DATA, "key": "in"}}]
    runner.define({"stepName": "a", "inputs": inputs, "content": "ls", "outputs": [{"name": "out"}]})
    runner.submit()
    [lease] = runner.take(1)
    with running_as(role):
        held = get_held_attempt(runner.mill, runner.worker.row.id, lease.task_id, lease.attempt, lease.run)
        prepared = presign.prepare(runner.mill, held)
        md5s = ["1B2M2Y8AsgTpgAmY7PhCfg=="] * len(part_ranges(LARGE))
        request = StoreRequest.model_validate({"name": "out", "size": LARGE, "md5s": md5s})
        [first] = presign.store(runner.mill, held, [request])
        [again] = presign.store(runner.mill, held, [request])
    assert [file.name for file in prepared.files] == ["in"]
    assert first.upload_id == again.upload_id
