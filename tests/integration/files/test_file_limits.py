"""Limits on files of a task, and the number of calls to list and sign them."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.api import work
from shardmill.aws.files import Files, Place
from shardmill.model.transfers import MAX_STORED_BYTES, PART_BYTES
from support.aws_rules.faults import Faults
from support.scenarios.file_worker import FileWorker, md5s
from support.scenarios.job_runner import JobRunner


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", "dependentSteps": list(after), **more}


def test_only_a_declared_output_is_completed_and_only_with_its_parts(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(step("make", outputs=[{"name": "out"}]))
    runner.submit()
    [lease] = runner.take(1)
    done = {"name": "other", "uploadId": "u", "etags": ["e"]}
    assert file_worker.ask(lease, 403, complete=done)["code"] == "file-forbidden"
    outputs = [{"name": "out", "size": PART_BYTES + 1, "md5s": [*md5s(b"a"), *md5s(b"b")]}]
    upload = file_worker.ask(lease, store=outputs)["stored"][0]["uploadId"]
    rejected = file_worker.ask(lease, 409, complete={"name": "out", "uploadId": upload, "etags": ["e", "f"]})
    assert "cannot be joined (InvalidPart); store it again" in rejected["detail"]


def test_too_many_outputs_are_rejected_and_the_task_can_still_end(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(step("make", outputs=[{"name": "out*"}]))
    runner.submit()
    [lease] = runner.take(1)
    known = {"size": 1, "sha256": "0" * 64}
    files = [{"name": f"out{number:03d}{'x' * 290}", **known} for number in range(1_000)]
    result = {
        "taskId": lease.task_id,
        "attempt": lease.attempt,
        "outcome": "success",
        "receipt": lease.receipt,
    }
    body = {"workerId": runner.worker.row.id, "results": [{**result, "files": files}]}
    rejected = runner.cloud.http("POST", "/v1/work:report", body)
    assert (rejected.status, rejected.json["code"]) == (413, "output-too-large")
    assert f"the limit is {MAX_STORED_BYTES}" in rejected.json["faults"][0]["message"]
    few = files[: MAX_STORED_BYTES // 500]
    body = {"workerId": runner.worker.row.id, "results": [{**result, "files": few, "output": "y" * 60_000}]}
    assert runner.cloud.http("POST", "/v1/work:report", body).status == 200
    assert runner.run()["state"] == "SUCCESS"


def test_an_upstream_step_is_read_once_for_all_files_of_a_task(
    runner: JobRunner, file_worker: FileWorker, faults: Faults
) -> None:
    names = [f"f{number}" for number in range(20)]
    runner.define(
        step("a", sharding=2, outputs=[{"name": "f*"}]),
        step("b", inputs=[{"name": name, "origin": "a"} for name in names]),
    )
    runner.submit()
    for lease in runner.take(2):
        half = names[lease.sharding.index :: 2]
        file_worker.end(lease, {name: name.encode() for name in half})
    [lease] = runner.take(1)
    faults.meter.calls.clear()
    file_worker.ask(lease, prepare=True)
    assert faults.meter.calls["dynamodb.Query"] == 1, "the outputs of the tasks in its one block"
    assert file_worker.fetch(lease) == {name: name.encode() for name in names}


def test_more_files_than_a_response_holds_are_rejected(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MAX_RESPONSE_BYTES", 2_000)
    runner.define(
        step("a", sharding=3, outputs=[{"name": "out"}]),
        step("b", inputs=[{"name": "*/out", "origin": "a"}]),
    )
    runner.submit()
    for lease in runner.take(3):
        file_worker.end(lease, {"out": b"x"})
    [lease] = runner.take(1)
    assert "reads 3 files, too many for one response" in file_worker.ask(lease, 409, prepare=True)["detail"]


def test_a_file_is_read_once_by_a_step(runner: JobRunner) -> None:
    files = {"inputs": [{"name": "x"}], "predata": [{"name": "x"}]}
    response = runner.cloud.http("PUT", "/v1/definitions/orders", {"steps": [step("a", **files)]})
    assert response.status == 422
    assert ("/steps/0/predata/0/name", "duplicate-file") in [
        (each["pointer"], each["code"]) for each in response.json["faults"]
    ]


def test_only_listed_files_are_signed(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(step("a", sharding=3, outputs=[{"name": "f*"}]))
    runner.submit()
    for lease in runner.take(3):
        file_worker.end(lease, {"f1": b"1", "f[2]": b"2"})
    runner.run()
    signed: list[Place] = []
    sign = Files.get_url

    def count(files: Files, place: Place) -> str:
        signed.append(place)
        return sign(files, place)

    monkeypatch.setattr(Files, "get_url", count)
    assert [file["index"] for file in file_worker.listed(name="f[2]", limit=100)] == [0, 1, 2]
    assert len(signed) == 3
    signed.clear()
    assert len(file_worker.listed(limit=2)) == 6
    assert len(signed) == 6 + 2, "and one more at the end of each page, to see whether there is another"
