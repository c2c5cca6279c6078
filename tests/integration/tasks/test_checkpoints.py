"""Checkpoints between attempts: over HTTP, directly with AWS and on Lambda; fenced by attempt."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from shardmill.model.worker import Lease
from shardmill.worker.transport.base import Transport
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

CONTENT = """
if [ -e "$SHARDMILL_CHECKPOINT" ]; then cat "$SHARDMILL_CHECKPOINT"; exit 0; fi
printf 'page %s' $SHARDMILL_SHARD_INDEX > "$SHARDMILL_CHECKPOINT"; exit 3
"""


@pytest.fixture(params=["direct", "http"])
def transport(cloud: Cloud, request: pytest.FixtureRequest) -> Transport:
    return connect(cloud, request.param)


def ask(runner: JobRunner, lease: Lease, data: bytes | None = None, status: int = 200) -> Any:
    body: dict[str, Any] = {
        "workerId": runner.worker.row.id,
        "taskId": lease.task_id,
        "attempt": lease.attempt,
        "run": lease.run,
    }
    if data is not None:
        body["data"] = b64encode(data).decode()
    answer = runner.cloud.http("POST", "/v1/work:checkpoint", body)
    assert answer.status == status, answer.json
    return answer.json


def test_a_retried_task_continues_from_its_checkpoint(runner: JobRunner, transport: Transport) -> None:
    runner.define(
        {"stepName": "a", "sharding": 2, "content": CONTENT, "failedRetries": 1, "failedInterval": 0}
    )
    runner.submit()
    runner.mill.workers.delete(runner.worker.row)
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "SUCCESS"
        assert [runner.task("a", n)["stdout"] for n in range(2)] == ["page 0", "page 1"]
        runner.post("/v1/jobs/orders/t1:rerun", {"scope": "all"})
        assert wait_for_end(runner)["state"] == "SUCCESS"
    assert len(runner.task("a", 0)["attempts"]) == 4, "a rerun begins without a checkpoint"


def test_a_task_of_a_lost_worker_finds_its_checkpoint_on_another(runner: JobRunner) -> None:
    runner.quick_group()
    runner.define({"stepName": "a", "content": "true", "workerGroup": "quick"})
    runner.submit()
    [first] = runner.take(1)
    assert not first.retried
    assert ask(runner, first)["data"] is None
    ask(runner, first, b"\x00one")
    ask(runner, first, b"\xfftwo")
    runner.later(30)
    [second] = runner.take(1)
    assert (second.retried, second.attempt) == (True, 2)
    assert ask(runner, second)["data"] == b64encode(b"\xfftwo").decode()


def test_a_late_attempt_cannot_replace_a_newer_checkpoint(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": "true", "failedRetries": 2, "failedInterval": 0})
    runner.submit()
    [first] = runner.take(1)
    ask(runner, first, b"one")
    runner.worker.report([first], "failed")
    [second] = runner.take(1)
    ask(runner, first, b"late", status=409)
    ask(runner, second, b"two")
    runner.worker.report([second], "failed")
    [third] = runner.take(1)
    assert ask(runner, third)["data"] == b64encode(b"two").decode()


def test_a_save_that_is_repeated_after_a_lost_answer_changes_nothing(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a", "content": "true", "failedRetries": 1, "failedInterval": 0})
    runner.submit()
    [first] = runner.take(1)
    faults.fail("s3", "PutObject", how="after")
    ask(runner, first, b"one", status=503)
    ask(runner, first, b"one")
    runner.worker.report([first], "failed")
    assert ask(runner, runner.take(1)[0])["data"] == b64encode(b"one").decode()


@pytest.mark.parametrize(("data", "code"), [("***", "bad-value"), ("A" * 90_000, "out-of-range")])
def test_invalid_checkpoints_are_rejected(runner: JobRunner, data: str, code: str) -> None:
    body = {"workerId": "w", "taskId": "t", "attempt": 1, "run": 1, "data": data}
    answer = runner.cloud.http("POST", "/v1/work:checkpoint", body)
    assert answer.status == 422
    assert (answer.json["faults"][0]["pointer"], answer.json["faults"][0]["code"]) == ("/data", code)


def test_checkpoints_are_deleted_with_the_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": "true"})
    runner.submit()
    ask(runner, runner.take(1)[0], b"one")
    runner.cloud.http("DELETE", "/v1/jobs/orders/t1?full=true")
    runner.tick(5)
    found = runner.cloud.clients.s3.list_objects_v2(Bucket=runner.cloud.bucket, Prefix="files/")
    assert "Contents" not in found
