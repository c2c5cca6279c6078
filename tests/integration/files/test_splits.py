"""Split one input among the tasks of a step, by records and with few reads."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.aws import clients
from shardmill.engine.files.split import store_cuts
from shardmill.model.definition.fields import StepDefine
from support.aws_rules.faults import Faults
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner

LINES = b"".join(b"line %d of a text\n" % number for number in range(500)) + b"the last, without an end"
NUMBERS = b"".join(b"%04d\n" % number for number in range(100))
FASTA = b"".join(b">read %d\n%s\n" % (number, b"ACGT" * (number % 40)) for number in range(200))


def define(
    runner: JobRunner,
    file_worker: FileWorker,
    data: bytes | None,
    partition: Any,
    name: str = "in.txt",
    **more: Any,
) -> None:
    if data is not None:
        file_worker.s3.put_object(Bucket=file_worker.bucket, Key=f"data/{name}", Body=data)
    source = {"name": name, "s3": {"bucket": file_worker.bucket, "key": f"data/{name}"}}
    step = {"stepName": "a", "content": "x", "inputs": [source], "partition": {"input": name, **partition}}
    runner.define({**step, **more})
    runner.submit()


def parts(runner: JobRunner, file_worker: FileWorker, name: str = "in.txt") -> list[bytes]:
    """Return what each task of the step reads, in order of index."""
    runner.cloud.run_until(lambda: runner.states().get("a") in ("READY", "FAILED"), 10)
    leases = runner.take(runner.step("a")["totalWork"])
    found = {lease.sharding.index: file_worker.fetch(lease)[name] for lease in leases}
    runner.worker.report(leases)
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize(
    ("data", "partition", "sharding", "start", "end"),
    [
        (LINES, {"index": "line"}, 7, b"line", b"\n"),
        (LINES, {"index": "bytes"}, 7, b"", b""),
        (FASTA, {"index": "record"}, 5, b">read", b"\n"),
        (LINES, {"index": "record", "options": "separator=line 7 of a text"}, 3, b"line", b"\n"),
        (b"one line only", {"index": "line"}, 4, b"one", b"only"),
        (b"", {"index": "line"}, 4, b"", b""),
    ],
)
def test_parts_consist_of_whole_records_and_add_up_to_the_input(
    runner: JobRunner,
    file_worker: FileWorker,
    data: bytes,
    partition: Any,
    sharding: int,
    start: bytes,
    end: bytes,
) -> None:
    define(runner, file_worker, data, partition, sharding=sharding)
    found = parts(runner, file_worker)
    assert b"".join(found) == data
    assert 1 <= len(found) <= sharding
    assert all(part.startswith(start) for part in found)
    assert all(part.endswith(end) for part in found[:-1])
    assert runner.run()["state"] == "SUCCESS"


def test_the_part_size_determines_the_number_of_parts(runner: JobRunner, file_worker: FileWorker) -> None:
    data = b"0123456789abcde\n" * (200_000)
    define(runner, file_worker, data, {"index": "line", "maxPartSizeMb": 1})
    found = parts(runner, file_worker)
    assert len(found) == 4
    assert b"".join(found) == data


def test_splitting_needs_few_small_reads_and_each_task_reads_only_its_part(
    runner: JobRunner, file_worker: FileWorker, faults: Faults
) -> None:
    data = LINES * 100
    faults.meter.calls.clear()
    define(runner, file_worker, data, {"index": "line"}, sharding=16)
    runner.cloud.run_until(lambda: runner.states().get("a") == "READY", 10)
    assert faults.meter.calls["s3.GetObject"] <= 16 + 1
    [lease] = runner.take(1)
    [fetch] = file_worker.ask(lease, prepare=True)["prepared"]["files"]
    assert fetch["end"] - fetch["first"] < len(data) / 8
    assert fetch["etag"]


def test_an_output_of_a_step_is_split(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(
        {"stepName": "make", "content": "x", "outputs": [{"name": "big"}]},
        {
            "stepName": "a",
            "content": "x",
            "sharding": 3,
            "inputs": [{"name": "big", "origin": "make"}],
            "partition": {"input": "big", "index": "line"},
        },
    )
    runner.submit()
    [lease] = runner.take(1)
    file_worker.end(lease, {"big": LINES})
    assert b"".join(parts(runner, file_worker, "big")) == LINES


def test_a_rerun_reads_the_same_parts(runner: JobRunner, file_worker: FileWorker) -> None:
    define(runner, file_worker, LINES, {"index": "line"}, sharding=4)
    leases = sorted(runner.take(4), key=lambda lease: lease.sharding.index)
    before = [file_worker.fetch(lease) for lease in leases]
    runner.worker.report([leases[0], leases[1], leases[3]])
    runner.worker.report([leases[2]], "failed-permanent")
    assert runner.run()["state"] == "FAILED"
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    [retried] = runner.take(1)
    assert file_worker.fetch(retried) == before[2]


@pytest.mark.parametrize(
    ("data", "name", "partition", "message"),
    [
        (gzip.compress(LINES, mtime=0), "in.txt", {"index": "line"}, "gzip"),
        (LINES, "in.gz", {"index": "line"}, "gzip"),
        (None, "in.txt", {"index": "line"}, "does not exist"),
        (LINES, "in.txt", {"index": "record"}, "fasta"),
        (LINES * 80, "in.txt", {"index": "bytes"}, None),
    ],
)
def test_an_input_that_cannot_be_split_fails_the_step_with_a_reason(
    runner: JobRunner,
    file_worker: FileWorker,
    data: bytes | None,
    name: str,
    partition: Any,
    message: str | None,
) -> None:
    define(runner, file_worker, data, partition, name=name, sharding=3)
    if message is None:
        assert len(parts(runner, file_worker)) == 3
        return
    job = runner.run()
    assert job["state"] == "FAILED"
    assert message in job["steps"][0]["notes"]


def test_a_plain_url_cannot_be_split(runner: JobRunner) -> None:
    step = {"stepName": "a", "content": "x", "inputs": [{"name": "i", "url": "https://example.com/x"}]}
    runner.define({**step, "partition": {"input": "i"}, "sharding": 2})
    runner.submit()
    assert "copy it to S3" in runner.run()["steps"][0]["notes"]


def test_the_number_of_records_limits_the_parts(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(
        {"stepName": "make", "content": "x", "outputs": [{"name": "big", "uploadIndex": "record"}]},
        {
            "stepName": "a",
            "content": "x",
            "sharding": "{{ params.n }}",
            "inputs": [{"name": "big", "origin": "make"}],
            "partition": {"input": "big", "index": "record"},
        },
        params={"n": 50},
    )
    runner.submit()
    [lease] = runner.take(1)
    data = b">a\nACGT\n>b\nAC\n>c\nGT\n"
    [stored] = file_worker.store(lease, {"big": data})
    runner.worker.report([lease], files=[{**stored, "indexed": {"by": "record", "units": 3}}])
    found = parts(runner, file_worker, "big")
    assert b"".join(found) == data
    assert len(found) <= 3
    assert [file["indexed"] for file in file_worker.listed()] == [{"by": "record", "units": 3}]
    [output] = runner.step("make")["outputs"]
    assert (output["name"], output["size"], output["totalIndex"]) == ("big", stored["size"], 3)
    assert runner.job()["steps"][1]["partition"]["totalIndex"] == 3


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


def test_an_input_whose_name_is_a_template_is_split(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(split_step(file_worker, NUMBERS, sharding=4), params={"day": "monday"})
    runner.submit()
    leases = sorted(runner.take(4), key=lambda lease: lease.sharding.index)
    parts = [file_worker.fetch(lease)["in-monday"] for lease in leases]
    assert b"".join(parts) == NUMBERS
    assert len(parts) == 4


def test_the_number_of_parts_may_be_a_template(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(
        split_step(file_worker, NUMBERS, sharding="{{ params.parts }}"), params={"day": "d", "parts": 5}
    )
    runner.submit()
    runner.take(5)
    assert runner.step("a")["totalWork"] == 5


def test_a_changed_object_does_not_change_the_cuts_of_an_open_step(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    """A second opening of the step after the object has changed does not replace the stored cuts."""
    runner.define(split_step(file_worker, NUMBERS, sharding=4), params={"day": "d"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states().get("a") == "READY", 10)
    row = runner.row(0)
    before = row.context["split"]
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/in", Body=b"x\n" + NUMBERS * 2)
    second = runner.row(0)
    parts, cuts = store_cuts(runner.mill, second, StepDefine.model_validate(second.spec), 4)
    assert parts == 4
    assert cuts["cuts"] != before["cuts"]
    leases = sorted(runner.take(4), key=lambda lease: lease.sharding.index)
    [first] = file_worker.ask(leases[0], prepare=True)["prepared"]["files"]
    assert (first["first"], first["end"], first["etag"]) == (0, 125, before["etag"])


@pytest.mark.parametrize("call", ["head_object", "get_object"])
def test_an_object_without_read_permission_fails_the_step_with_a_note(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def deny(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call)

    monkeypatch.setattr(clients.s3(), call, deny)
    runner.define(split_step(file_worker, NUMBERS, sharding=4), params={"day": "d"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.ended(), 10)
    notes = runner.step("a")["notes"]
    assert f"s3://{file_worker.bucket}/data/in cannot be read (AccessDenied): the bucket must be" in notes


def test_an_invalid_bucket_fails_the_step_with_a_note(runner: JobRunner, file_worker: FileWorker) -> None:
    where = {"bucket": "no/../bucket", "key": "k"}
    runner.define(step("a", inputs=[{"name": "x", "s3": where}]))
    runner.submit()
    [lease] = runner.take(1)
    rejected = file_worker.ask(lease, 409, prepare=True)
    assert (rejected["code"], rejected["detail"]) == (
        "file-unavailable",
        "'no/../bucket' is not a valid bucket name",
    )
