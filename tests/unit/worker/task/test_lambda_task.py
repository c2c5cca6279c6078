"""Lambda tasks: functions invoked over the Lambda API on loopback."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Result
from shardmill.worker.task import lambda_task
from shardmill.worker.task.execute import Runtime, execute
from support.fakes.lambda_server import Functions, LambdaServer, lambda_server
from support.fakes.leases import JOB, a_lease


class Handlers:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def echo(self, event: dict[str, Any], _: Any) -> Any:
        self.events.append(event)
        return {"index": event["sharding"]["index"]}

    def fail(self, event: dict[str, Any], _: Any) -> Any:
        raise ValueError("no such day")

    def big(self, event: dict[str, Any], _: Any) -> Any:
        return "x" * 100_000

    def slow(self, event: dict[str, Any], _: Any) -> Any:
        self.events.append(event)
        time.sleep(20)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def aws(handlers: Handlers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LambdaServer]:
    named = {name: getattr(handlers, name) for name in ("echo", "fail", "big", "slow")}
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with lambda_server(Functions(named, {}, {})) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        lambda_task._client.cache_clear()
        yield server
    lambda_task._client.cache_clear()


def run(content: Any, tmp_path: Path, **more: Any) -> Result:
    runtime = Runtime(tmp_path / "work")
    return execute(a_lease("lambda", content, **more), runtime, threading.Event())


@pytest.mark.usefixtures("aws")
def test_a_function_gets_the_task_and_its_response_is_the_output(handlers: Handlers, tmp_path: Path) -> None:
    content = {"function": "echo", "payload": {"deep": [1]}}
    fields = {"params": {"day": "x"}, "pack": {"start": 1, "end": 9}, "dataTime": "2020-01-21T00:00:00Z"}
    result = run(content, tmp_path, **fields)
    assert (result.outcome, result.stdout, result.output) == ("success", '{"index": 7}', {"index": 7})
    assert handlers.events == [
        {
            "taskId": f"{JOB}_0_7",
            "attempt": 1,
            "jobName": "balance",
            "trigger": "t1",
            "jobId": JOB,
            "stepName": "main",
            "sharding": {"index": 7, "total": 12},
            "pack": {"start": 1, "end": 9},
            "params": {"day": "x"},
            "executeUser": None,
            "dataTime": "2020-01-21T00:00:00.000Z",
            "payload": {"deep": [1]},
        }
    ]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("content", "outcome", "reason"),
    [
        ("echo", "success", None),
        ("fail", "failed", "function fail failed: ValueError: no such day"),
        ("missing", "failed-permanent", "function missing: An error occurred (ResourceNotFoundException)"),
        (
            "no name!",
            "failed-permanent",
            "the content of a lambda task must be the name or ARN of a Lambda function",
        ),
        ({}, "failed-permanent", "the content of a lambda task at /function: is required"),
    ],
)
def test_the_response_decides_the_outcome(
    tmp_path: Path, content: Any, outcome: str, reason: str | None
) -> None:
    result = run(content, tmp_path)
    assert result.outcome == outcome
    assert (result.reason or "").startswith(reason or "")


@pytest.mark.usefixtures("aws")
def test_a_large_response_is_in_stdout_but_is_not_an_output(tmp_path: Path) -> None:
    result = run("big", tmp_path)
    assert (result.outcome, result.output) == ("success", None)
    assert (result.stdout or "").endswith('xxx"')


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("missing", "word"), [("AWS_ACCESS_KEY_ID", "credentials"), ("AWS_DEFAULT_REGION", "region")]
)
def test_a_task_is_rejected_without_credentials_or_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, word: str
) -> None:
    monkeypatch.delenv(missing)
    result = run("echo", tmp_path)
    assert result.outcome == "rejected"
    assert (result.reason or "").startswith("this worker cannot invoke Lambda functions: ")
    assert word in (result.reason or "").lower()


@pytest.mark.usefixtures("aws")
def test_a_slow_function_times_out(tmp_path: Path) -> None:
    assert run("slow", tmp_path, timeoutSeconds=1).reason == "timed-out"


@pytest.mark.usefixtures("aws")
def test_a_stopped_task_does_not_wait_for_its_function(handlers: Handlers, tmp_path: Path) -> None:
    stop = threading.Event()

    def stop_it() -> None:
        while not handlers.events:
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=stop_it, daemon=True).start()
    result = execute(a_lease("lambda", "slow"), Runtime(tmp_path / "work"), stop)
    assert (result.outcome, result.reason) == ("failed", "discarded")
    assert list((tmp_path / "work").iterdir()) == []


def test_an_unreachable_lambda_endpoint_fails_the_task(
    aws: LambdaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:1")
    result = run("echo", tmp_path)
    assert result.outcome == "failed"
    assert "127.0.0.1:1" in (result.reason or "")
