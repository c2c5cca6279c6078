"""Logs from worker to reader, while a task runs and after it ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.aws import files
from shardmill.worker.task import bounds, log_stream
from shardmill.worker.transport.base import Transport
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

LOGS = "/v1/jobs/orders/t1/steps/a/tasks/0/logs?stream=stdout"


@pytest.fixture(params=["direct", "http"])
def transport(runner: JobRunner, request: pytest.FixtureRequest) -> Transport:
    return connect(runner.cloud, request.param)


def read_all(runner: JobRunner, offset: int = 0) -> tuple[str, dict[str, Any]]:
    text = ""
    while True:
        given = runner.cloud.http("GET", f"{LOGS}&offset={offset}")
        assert given.status == 200, given.json
        page = given.json
        text += page["text"]
        if page["complete"] or page["offset"] == offset:
            return text, page
        offset = page["offset"]


def test_a_log_can_be_read_while_its_task_runs(
    runner: JobRunner, transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(log_stream, "PIECE_SECONDS", 0.05)
    runner.cloud.http("PUT", "/v1/groups/default", {"leaseSeconds": 10})  # for frequent heartbeats
    go = tmp_path / "go"
    wait = f"until [ -e {go}.1 ]; do sleep 0.05; done"
    content = f"echo one; {wait}; printf 'tw\\303'; {wait.replace('.1', '.2')}; printf '\\266\\nend'"
    runner.define({"stepName": "a", "content": content})
    runner.submit()
    with worker_thread(transport):
        runner.cloud.run_until(lambda: runner.step("a").get("counts") == {"RUNNING": 1}, 20)
        runner.cloud.run_until(lambda: read_all(runner)[0] == "one\n", 40)
        Path(f"{go}.1").touch()
        runner.cloud.run_until(lambda: read_all(runner, 4)[0] == "tw", 20)
        assert read_all(runner)[1]["complete"] is False
        Path(f"{go}.2").touch()
        assert wait_for_end(runner)["state"] == "SUCCESS"
    text, page = read_all(runner)
    assert (text, page["offset"], page["complete"]) == ("one\ntwö\nend", 12, True)
    for offset in range(12):
        whole = "one\ntwö\nend".encode()[offset:].decode(errors="replace")
        assert read_all(runner, offset)[0] == whole


def test_a_log_of_many_chunks_is_read_in_pages(
    runner: JobRunner, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CHUNKS", 3)
    runner.define({"stepName": "a", "type": "noop"})
    runner.submit()
    with worker_thread(transport):
        wait_for_end(runner)
    prefix = f"logs/{runner.row(0).job_id}/1/0/0/1/stdout/"
    for number in range(10):
        key = f"{prefix}{number:06d}"
        runner.cloud.clients.s3.put_object(Bucket=runner.cloud.bucket, Key=key, Body=b"%d" % number)
    first = runner.cloud.http("GET", LOGS).json
    assert (first["text"], first["offset"], first["complete"]) == ("012", 3, False)
    assert read_all(runner) == ("0123456789", {"text": "9", "offset": 10, "complete": True})


def test_a_log_of_control_characters_is_read_in_pages_that_fit_into_a_response(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "type": "noop"})
    runner.submit()
    runner.run()
    key = f"logs/{runner.row(0).job_id}/1/0/0/1/stdout/000000"
    runner.cloud.clients.s3.put_object(Bucket=runner.cloud.bucket, Key=key, Body=b"\x01" * 1_000_000)
    first = runner.cloud.http("GET", LOGS).json
    assert len(json.dumps(json.dumps(first))) < 6_000_000
    assert first["complete"] is False
    text, page = read_all(runner)
    assert (len(text), page["offset"], page["complete"]) == (1_000_000, 1_000_000, True)
