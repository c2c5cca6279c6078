"""The Lambda worker in a process like Lambda's: variables, read-only files, /tmp, no HOME, limited memory."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from integration.workers.test_worker_lambda import a_step, records
from support import lambda_sandbox
from support.fakes.webhook_receiver import receiver
from support.scenarios.job_runner import JobRunner

WHY_NOT = lambda_sandbox.reason_not_possible()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
MEMORY_MB = 1024  # as in template.yaml


@pytest.fixture
def endpoint(runner: JobRunner) -> Iterator[str]:
    """The AWS of this test, for another process."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def run(runner: JobRunner, endpoint: str, count: int = 1, **variables: str) -> dict[str, Any]:
    event = {"Records": records(runner, count)}
    environment = {**runner.cloud.environment, "AWS_ENDPOINT_URL": endpoint, **variables}
    done = lambda_sandbox.invoke("runner", event, environment, MEMORY_MB)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("step", "stdout"),
    [
        ({"content": 'echo "$HOME|$PWD" | sed "s#/tmp/shardmill-.*#work#"'}, "|work\n"),
        ({"type": "python", "content": "platform:system"}, None),
    ],
    ids=["shell", "python"],
)
def test_programs_start(runner: JobRunner, endpoint: str, step: dict[str, Any], stdout: str | None) -> None:
    a_step(runner, **step)
    assert run(runner, endpoint) == {"batchItemFailures": []}
    runner.cloud.run_until(lambda: runner.job()["state"] in ("SUCCESS", "FAILED"))
    task = runner.task("a", 0)
    assert runner.job()["state"] == "SUCCESS", task
    assert stdout in (None, task["stdout"])


def test_an_http_task_calls_an_allowed_host(runner: JobRunner, endpoint: str) -> None:
    with receiver() as server:
        a_step(runner, type="http", content={"url": server.url, "method": "POST"})
        run(runner, endpoint, SHARDMILL_ALLOW_HOSTS="127.0.0.1")
        assert len(server.requests) == 1
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_ten_tasks_read_and_write_files(runner: JobRunner, endpoint: str) -> None:
    content = "head -c 1000000 /dev/zero > part-$SHARDMILL_SHARD_INDEX"
    outputs = [{"name": "part-{{ shard.index }}", "nonzero": True}]
    a_step(runner, sharding=10, content=content, outputs=outputs)
    assert run(runner, endpoint, count=10) == {"batchItemFailures": []}
    runner.cloud.run_until(lambda: runner.job()["state"] in ("SUCCESS", "FAILED"))
    assert runner.job()["state"] == "SUCCESS", runner.task("a", 0)


def test_a_task_that_needs_more_memory_than_the_function_has_fails_alone(
    runner: JobRunner, endpoint: str
) -> None:
    program = "x = bytearray(4 * 1024 ** 3 if $SHARDMILL_SHARD_INDEX else 1)"
    a_step(runner, sharding=2, content=f'python3 -c "{program}"', failedRetries=0)
    assert run(runner, endpoint, count=2) == {"batchItemFailures": []}
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert [runner.task("a", number)["state"] for number in range(2)] == ["SUCCESS", "FAILED"]
    assert "MemoryError" in runner.task("a", 1)["stderr"]
