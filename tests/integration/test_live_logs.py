"""Logs on moto from the worker's side to the reader's: while a task runs, and whole when it has ended."""

from pathlib import Path
from typing import Any

import pytest

from integration.test_worker_jobs import a_transport, ended, working
from shardmill.aws import files
from shardmill.worker.task import limits, log_stream
from shardmill.worker.transport.base import Transport
from support.play import Play

LOGS = "/v1/jobs/play/t1/steps/a/tasks/0/logs?stream=stdout"


@pytest.fixture(params=["direct", "http"])
def transport(play: Play, request: pytest.FixtureRequest) -> Transport:
    return a_transport(play.cloud, request.param)


def read_all(play: Play, offset: int = 0) -> tuple[str, dict[str, Any]]:
    text = ""
    while True:
        given = play.cloud.http("GET", f"{LOGS}&offset={offset}")
        assert given.status == 200, given.json
        page = given.json
        text += page["text"]
        if page["complete"] or page["offset"] == offset:
            return text, page
        offset = page["offset"]


def test_a_log_can_be_read_while_its_task_runs(
    play: Play, transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(log_stream, "PIECE_SECONDS", 0.05)
    play.cloud.http("PUT", "/v1/groups/default", {"leaseSeconds": 10})  # so that it beats often
    go = tmp_path / "go"
    wait = f"until [ -e {go}.1 ]; do sleep 0.05; done"
    content = f"echo one; {wait}; printf 'tw\\303'; {wait.replace('.1', '.2')}; printf '\\266\\nend'"
    play.define({"stepName": "a", "content": content})
    play.submit()
    with working(transport):
        play.cloud.run_until(lambda: play.step("a").get("counts") == {"RUNNING": 1}, 20)
        play.cloud.run_until(lambda: read_all(play)[0] == "one\n", 40)
        Path(f"{go}.1").touch()
        play.cloud.run_until(lambda: read_all(play, 4)[0] == "tw", 20)
        assert read_all(play)[1]["complete"] is False
        Path(f"{go}.2").touch()
        assert ended(play)["state"] == "SUCCESS"
    text, page = read_all(play)
    assert (text, page["offset"], page["complete"]) == ("one\ntwö\nend", 12, True)
    for offset in range(12):
        whole = "one\ntwö\nend".encode()[offset:].decode(errors="replace")
        assert read_all(play, offset)[0] == whole


def test_a_log_of_very_many_pieces_is_read_page_by_page(
    play: Play, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_CHUNKS", 3)
    play.define({"stepName": "a", "type": "noop"})
    play.submit()
    with working(transport):
        ended(play)
    prefix = f"logs/{play.row(0).job_id}/1/0/0/1/stdout/"
    for number in range(10):
        key = f"{prefix}{number:06d}"
        play.cloud.clients.s3.put_object(Bucket=play.cloud.bucket, Key=key, Body=b"%d" % number)
    first = play.cloud.http("GET", LOGS).json
    assert (first["text"], first["offset"], first["complete"]) == ("012", 3, False)
    assert read_all(play) == ("0123456789", {"text": "9", "offset": 10, "complete": True})
