"""Files submitted with a Job are copied after its row is written: in Plan, or by a tick while it waits."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from shardmill.aws.files import Files
from shardmill.aws.machines import Machines
from shardmill.engine.files import join, uploads
from shardmill.model.actor import Actor
from shardmill.model.transfers import UploadRequest
from support.aws_rules.call import running_as
from support.scenarios.file_worker import FileWorker, place
from support.scenarios.job_runner import JobRunner

DATA = b"hello"
STEP = {"stepName": "read", "content": "x", "inputs": [{"name": "in.txt"}]}


@pytest.fixture
def file_worker(runner: JobRunner) -> FileWorker:
    return FileWorker(runner)


def uploaded(runner: JobRunner, file_worker: FileWorker, data: bytes = DATA) -> list[dict[str, Any]]:
    body = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    answer = runner.cloud.http("POST", "/v1/uploads", body).json
    if not answer["present"]:
        file_worker.s3.put_object(**place(answer["url"]), Body=data)
    return [{"name": "in.txt", "upload": answer["upload"], "size": len(data)}]


def stored(file_worker: FileWorker, prefix: str) -> list[str]:
    listed = file_worker.s3.list_objects_v2(Bucket=file_worker.bucket, Prefix=prefix)
    return [each["Key"] for each in listed.get("Contents", [])]


def remove_upload(file_worker: FileWorker, files: list[dict[str, Any]]) -> None:
    file_worker.s3.delete_object(Bucket=file_worker.bucket, Key=f"uploads/{files[0]['upload']}")


def submit_without_start(runner: JobRunner, **request: Any) -> dict[str, Any]:
    """Submit a Job whose execution is started by the next tick only."""
    with patch.object(Machines, "start_job"):
        return runner.submit(**request)


def test_a_request_copies_nothing(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(STEP)
    job = submit_without_start(runner, files=uploaded(runner, file_worker))
    assert stored(file_worker, "files/") == []
    [listed] = file_worker.listed()
    assert file_worker.read(listed["url"]) == DATA  # of the upload
    runner.tick(3)
    [lease] = runner.take(1)
    assert stored(file_worker, "files/") == [f"files/{job['id']}/given/in.txt"]
    assert file_worker.fetch(lease) == {"in.txt": DATA}
    assert not runner.mill.jobs.get(job["id"]).files_pending  # type: ignore[union-attr]


def test_no_call_copies_more_than_it_can_within_its_time_limit(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "MAX_COPY", join.MIN_PART)
    runner.define(STEP)
    data = b"x" * (2 * join.MIN_PART) + b"end"
    with patch.object(Files, "copy", side_effect=AssertionError("copied in one call")):
        runner.submit(files=uploaded(runner, file_worker, data))
        [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {"in.txt": data}


@pytest.mark.parametrize("size", [0, join.MIN_PART], ids=["large", "small"])
def test_a_job_whose_upload_expired_fails_with_the_reason(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(join, "MAX_COPY", size)
    runner.define(STEP)
    files = uploaded(runner, file_worker)
    submit_without_start(runner, files=files)
    remove_upload(file_worker, files)
    runner.tick(3)
    runner.run()
    job = runner.job()
    assert (job["state"], "the upload of 'in.txt' expired" in job["notes"]) == ("FAILED", True)


def test_the_files_of_a_waiting_job_are_copied_by_a_tick(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(STEP)
    files = uploaded(runner, file_worker)
    later = (datetime.now(UTC) + timedelta(days=20)).isoformat()
    job = runner.submit(files=files, after=later)
    assert stored(file_worker, "files/") == []
    runner.tick(3)
    assert stored(file_worker, "files/") == [f"files/{job['id']}/given/in.txt"]
    assert runner.job()["state"] == "WAITING"


def test_a_waiting_job_whose_upload_expired_fails(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(STEP)
    files = uploaded(runner, file_worker)
    runner.submit(files=files, after=(datetime.now(UTC) + timedelta(days=20)).isoformat())
    remove_upload(file_worker, files)
    runner.tick(3)
    assert runner.job()["state"] == "FAILED"


def test_a_copy_after_the_job_was_deleted_leaves_no_object(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(STEP)
    job = submit_without_start(runner, files=uploaded(runner, file_worker))
    row = runner.mill.jobs.get(job["id"])
    assert row
    runner.mill.jobs.purge(row, most=100)
    with running_as("orchestrate"):
        uploads.copy_to_job(runner.mill, row)
    assert stored(file_worker, "files/") == []


def test_an_upload_that_expires_within_a_day_is_uploaded_again(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    uploaded(runner, file_worker)
    wanted = UploadRequest(size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest())
    actor = Actor(name="admin")
    now = round(datetime.now(UTC).timestamp() * 1000)
    assert uploads.begin(runner.mill, wanted, actor, now).present
    assert not uploads.begin(runner.mill, wanted, actor, now + uploads.REUSED_MS).present
