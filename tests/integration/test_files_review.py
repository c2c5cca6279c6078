"""Files, looked at with suspicion: whose they are, whether they are the right ones, what is said if not."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.api import work
from shardmill.aws import clients
from shardmill.aws.files import Files, Place
from shardmill.engine.files.split import settle
from shardmill.model.definition.fields import StepDefine
from shardmill.model.transfers import MAX_STORED_BYTES, PART_BYTES
from support.aws_rules.faults import Faults
from support.scenarios.file_worker import FileWorker, md5s
from support.scenarios.job_runner import JobRunner


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", "dependentSteps": list(after), **more}


def split_step(file_worker: FileWorker, data: bytes, **more: Any) -> dict[str, Any]:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/in", Body=data)
    where = {"bucket": file_worker.bucket, "key": "data/in"}
    files: dict[str, Any] = {
        "inputs": [{"name": "in-{{ params.day }}", "s3": where}],
        "partition": {"input": "in-{{ params.day }}", "index": "line"},
    }
    return step("a", **{**files, **more})


LINES = b"".join(b"%04d\n" % number for number in range(100))


def test_an_input_whose_name_is_a_template_is_split_too(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(split_step(file_worker, LINES, sharding=4), params={"day": "monday"})
    runner.submit()
    leases = sorted(runner.take(4), key=lambda lease: lease.sharding.index)
    parts = [file_worker.fetch(lease)["in-monday"] for lease in leases]
    assert b"".join(parts) == LINES
    assert len(parts) == 4


def test_the_number_of_parts_may_be_a_template(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(
        split_step(file_worker, LINES, sharding="{{ params.parts }}"), params={"day": "d", "parts": 5}
    )
    runner.submit()
    runner.take(5)
    assert runner.step("a")["totalWork"] == 5


def test_cuts_of_one_object_are_never_used_for_another(runner: JobRunner, file_worker: FileWorker) -> None:
    """Two open the same step, and between their looks the object is changed: the one that is late loses."""
    runner.define(split_step(file_worker, LINES, sharding=4), params={"day": "d"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states().get("a") == "READY", 10)
    row = runner.row(0)
    before = row.context["split"]
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/in", Body=b"x\n" + LINES * 2)
    late = runner.row(0)
    assert settle(runner.mill, late, StepDefine.model_validate(late.spec), 4) == 4
    assert late.context["split"]["cuts"] != before["cuts"]
    leases = sorted(runner.take(4), key=lambda lease: lease.sharding.index)
    [first] = file_worker.ask(leases[0], prepare=True)["prepared"]["files"]
    assert (first["first"], first["end"], first["etag"]) == (0, 125, before["etag"])


@pytest.mark.parametrize("call", ["head_object", "get_object"])
def test_an_object_that_shardmill_may_not_read_is_said(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call)

    monkeypatch.setattr(clients.s3(), call, refuse)
    runner.define(split_step(file_worker, LINES, sharding=4), params={"day": "d"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.ended(), 10)
    notes = runner.step("a")["notes"]
    assert f"s3://{file_worker.bucket}/data/in cannot be read (AccessDenied): the bucket must be" in notes


def test_a_bucket_that_cannot_be_is_said(runner: JobRunner, file_worker: FileWorker) -> None:
    where = {"bucket": "no/../bucket", "key": "k"}
    runner.define(step("a", inputs=[{"name": "x", "s3": where}]))
    runner.submit()
    [lease] = runner.take(1)
    refused = file_worker.ask(lease, 409, prepare=True)
    assert (refused["code"], refused["detail"]) == (
        "file-unavailable",
        "'no/../bucket' is not a valid bucket name",
    )


def test_a_task_never_reads_the_file_of_another_task_for_its_own(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    """The second task of `a` failed, which is tolerated: the second of `b` has no input then."""
    runner.define(
        step("a", sharding=2, outputs=[{"name": "out"}], toleratedFailures=1),
        step("b", sharding=2, inputs=[{"name": "out", "origin": "a"}]),
    )
    runner.submit()
    for lease in runner.take(2):
        if lease.sharding.index:
            runner.worker.report([lease], "failed-permanent")
        else:
            file_worker.end(lease, {"out": b"of the first"})
    first, second = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    assert file_worker.fetch(first) == {"out": b"of the first"}
    assert file_worker.ask(second, 409, prepare=True)["detail"] == "step 'a' made no file 'out'"


def test_tasks_share_a_file_that_one_of_as_many_made(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(
        step("a", sharding=2, outputs=[{"name": "part-{{ shard.index }}"}]),
        step("b", sharding=2, inputs=[{"name": "part-0", "origin": "a"}]),
    )
    runner.submit()
    for lease in runner.take(2):
        file_worker.end(lease, {f"part-{lease.sharding.index}": b"%d" % lease.sharding.index})
    for lease in runner.take(2):
        assert file_worker.fetch(lease) == {"part-0": b"0"}


@pytest.mark.parametrize("name", ["a[1].txt", "50% off+more #1?.txt", "ü/ß ö.csv", "*", "x'y\"z&<>.txt"])
def test_odd_names_are_just_names(runner: JobRunner, file_worker: FileWorker, name: str) -> None:
    runner.define(
        step("a", outputs=[{"name": name}]),
        step("b", inputs=[{"name": name, "origin": "a"}]),
    )
    runner.submit()
    [lease] = runner.take(1)
    file_worker.end(lease, {name: b"odd"})
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {name: b"odd"}
    assert [file["name"] for file in file_worker.listed()] == [name]


@pytest.mark.parametrize(
    "key",
    [
        "files/{own}/../somebody/else",
        "files/./somebody/else",
        "./files/somebody/else",
        "/files/somebody/else",
        "//logs/somebody/else",
        "files//somebody/else",
        "data/../files/somebody/else",
    ],
)
def test_no_spelling_of_a_key_leads_to_another_job(
    runner: JobRunner, file_worker: FileWorker, key: str
) -> None:
    where = {"bucket": file_worker.bucket, "key": key.replace("{own}", "{{ job.id }}")}
    runner.define(step("read", inputs=[{"name": "in", "s3": where}]))
    runner.submit()
    [lease] = runner.take(1)
    assert file_worker.ask(lease, 403, prepare=True)["code"] == "file-forbidden"


def test_only_a_declared_output_is_completed_and_only_with_its_parts(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(step("make", outputs=[{"name": "out"}]))
    runner.submit()
    [lease] = runner.take(1)
    done = {"name": "other", "uploadId": "u", "etags": ["e"]}
    assert file_worker.ask(lease, 403, complete=done)["code"] == "file-forbidden"
    wish = [{"name": "out", "size": PART_BYTES + 1, "md5s": [*md5s(b"a"), *md5s(b"b")]}]
    upload = file_worker.ask(lease, store=wish)["stored"][0]["uploadId"]
    refused = file_worker.ask(lease, 409, complete={"name": "out", "uploadId": upload, "etags": ["e", "f"]})
    assert "cannot be joined (InvalidPart); store it again" in refused["detail"]


def test_more_outputs_than_a_row_tells_of_are_refused_and_the_task_can_still_end(
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
    refused = runner.cloud.http("POST", "/v1/work:report", body)
    assert (refused.status, refused.json["code"]) == (413, "output-too-large")
    assert f"{MAX_STORED_BYTES} fit" in refused.json["faults"][0]["message"]
    few = files[: MAX_STORED_BYTES // 500]
    body = {"workerId": runner.worker.row.id, "results": [{**result, "files": few, "output": "y" * 60_000}]}
    assert runner.cloud.http("POST", "/v1/work:report", body).status == 200
    assert runner.run()["state"] == "SUCCESS"


def test_a_step_upstream_is_looked_at_once_for_all_files_of_a_task(
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
    assert faults.meter.calls["dynamodb.Query"] == 2, "the blocks of the step, and what they left"
    assert file_worker.fetch(lease) == {name: name.encode() for name in names}


def test_more_files_than_an_answer_names_are_refused(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MOST_ANSWERED_BYTES", 2_000)
    runner.define(
        step("a", sharding=3, outputs=[{"name": "out"}]),
        step("b", inputs=[{"name": "*/out", "origin": "a"}]),
    )
    runner.submit()
    for lease in runner.take(3):
        file_worker.end(lease, {"out": b"x"})
    [lease] = runner.take(1)
    assert (
        "reads 3 files, more than one answer can name" in file_worker.ask(lease, 409, prepare=True)["detail"]
    )


def test_a_file_is_read_once_by_a_step(runner: JobRunner) -> None:
    files = {"inputs": [{"name": "x"}], "predata": [{"name": "x"}]}
    answer = runner.cloud.http("PUT", "/v1/definitions/play", {"steps": [step("a", **files)]})
    assert answer.status == 422
    assert ("/steps/0/predata/0/name", "duplicate-file") in [
        (each["pointer"], each["code"]) for each in answer.json["faults"]
    ]


def test_only_files_that_are_shown_are_signed(
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
