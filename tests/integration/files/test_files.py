"""Files of steps: sources, access control, and the attempt whose files are used."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from shardmill.engine.control import delete
from shardmill.model.transfers import PART_BYTES
from support.scenarios.file_worker import FileWorker, md5s, place
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", "dependentSteps": list(after), **more}


MAKE = step(
    "make", sharding=3, outputs=[{"name": "part-{{ shard.index }}.csv"}, {"name": "log", "optional": True}]
)


def run_make_step(runner: JobRunner, file_worker: FileWorker) -> None:
    """Complete the three tasks of step `make`; each stores its own part and a file named `log`."""
    for lease in runner.take(3):
        number = lease.sharding.index
        assert lease.prepare
        file_worker.end(lease, {f"part-{number}.csv": b"%d\n" % number, "log": b"log %d" % number})


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([{"name": "part-1.csv"}], {"part-1.csv": b"1\n"}),
        ([{"name": "part-*.csv"}], {f"part-{n}.csv": b"%d\n" % n for n in range(3)}),
        ([{"name": "*/log"}], {f"{n}/log": b"log %d" % n for n in range(3)}),
        ([{"name": "all.csv", "pattern": "part-*.csv"}], {"all.csv": b"0\n1\n2\n"}),
        ([{"name": "logs", "pattern": "log"}], {"logs": b"log 0log 1log 2"}),
        ([{"name": "other", "optional": True}], {}),
    ],
)
def test_a_step_reads_the_outputs_of_its_origin_step(
    runner: JobRunner, file_worker: FileWorker, inputs: Any, expected: Any
) -> None:
    runner.define(MAKE, step("next", inputs=[{"origin": "make", **each} for each in inputs]))
    runner.submit()
    run_make_step(runner, file_worker)
    [lease] = runner.take(1)  # the origin is an implicit dependency
    assert file_worker.fetch(lease) == expected
    runner.worker.report([lease])
    assert runner.run()["state"] == "SUCCESS"


def test_a_task_reads_the_file_of_the_task_with_the_same_index(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    out = [{"name": "out"}]
    runner.define(
        step("a", sharding=4, outputs=out), step("b", sharding=4, inputs=[{"name": "out", "origin": "a"}])
    )
    runner.submit()
    for lease in runner.take(4):
        file_worker.end(lease, {"out": b"of %d" % lease.sharding.index})
    for lease in runner.take(4):
        assert file_worker.fetch(lease) == {"out": b"of %d" % lease.sharding.index}


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"name": "none.csv"}, "produced no file 'none.csv'"),
        ({"name": "x-*"}, "produced no file 'x-*'"),
        (
            {"name": "log"},
            "3 tasks of step 'make' produced a file 'log': read all with a pattern such as '*/log'",
        ),
    ],
)
def test_a_missing_or_ambiguous_input_is_rejected_with_a_reason(
    runner: JobRunner, file_worker: FileWorker, file: Any, message: str
) -> None:
    runner.define(MAKE, step("next", inputs=[{"origin": "make", **file}]))
    runner.submit()
    run_make_step(runner, file_worker)
    [lease] = runner.take(1)
    rejected = file_worker.ask(lease, 409, prepare=True)
    assert rejected["code"] == "file-unavailable"
    assert message in rejected["detail"]


def test_only_files_of_the_successful_attempt_are_listed(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("make", outputs=[{"name": "out"}], failedRetries=1, failedInterval=0))
    runner.submit()
    [first] = runner.take(1)
    stored = file_worker.store(first, {"out": b"half"})
    assert file_worker.listed() == []
    runner.worker.report([first], "failed", files=stored)
    runner.later(2)
    [second] = runner.take(1)
    assert second.attempt == 2
    file_worker.ask(first, 409, store=[{"name": "out", "size": 1, "md5s": md5s(b"x")}])
    file_worker.end(second, {"out": b"whole"})
    runner.run()
    [file] = file_worker.listed()
    assert (file["stepName"], file["index"], file["name"], file["attempt"]) == ("make", 0, "out", 2)
    assert file_worker.read(file["url"]) == b"whole"
    assert file["sha256"] == hashlib.sha256(b"whole").hexdigest()
    assert [each["name"] for each in runner.task("make", 0)["files"]] == ["out"]


def test_a_worker_gets_urls_only_for_tasks_it_holds(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("make", sharding=2, outputs=[{"name": "out"}]))
    runner.submit()
    [held, reported] = runner.take(2)
    other = ManualWorker(runner.mill, "other")
    body: dict[str, Any] = {"store": [{"name": "out", "size": 1, "md5s": md5s(b"x")}]}
    assert file_worker.ask(held, 409, worker=other.row.id, **body)["code"] == "stale-attempt"
    runner.worker.report([reported])
    assert file_worker.ask(reported, 409, **body)["code"] == "stale-attempt"
    undeclared = [{"name": "passwd", "size": 1, "md5s": md5s(b"x")}]
    assert file_worker.ask(held, 403, store=undeclared)["code"] == "file-forbidden"
    outside = [{"name": "../out", "size": 1, "md5s": md5s(b"x")}]
    assert file_worker.ask(held, 422, store=outside)["faults"][0]["pointer"] == "/store/0/name"
    too_few_md5s = [{"name": "out", "size": 2 * PART_BYTES, "md5s": md5s(b"x")}]
    assert "needs 2 md5s" in file_worker.ask(held, 409, store=too_few_md5s)["detail"]
    assert file_worker.ask(held, 422)["faults"][0]["message"].startswith("needs exactly one of")


def test_a_large_output_is_a_resumable_multipart_upload(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("make", outputs=[{"name": "big", "uploadName": "named"}]))
    runner.submit()
    [lease] = runner.take(1)
    size = PART_BYTES + 10
    body = [{"name": "named", "size": size, "md5s": [md5s(b"a")[0], md5s(b"b")[0]]}]
    responses = [file_worker.ask(lease, store=body)["stored"][0] for _ in range(2)]
    assert responses[0]["uploadId"] == responses[1]["uploadId"]
    key = place(responses[0]["urls"][0])
    etags = [
        file_worker.s3.upload_part(
            **key, UploadId=responses[0]["uploadId"], PartNumber=number, Body=b"x" * 6_000_000
        )["ETag"]
        for number in (1, 2)
    ]
    done = {"name": "named", "uploadId": responses[0]["uploadId"], "etags": etags}
    for _ in range(2):  # a worker repeats the call if the response is lost
        file_worker.ask(lease, complete=done)
    assert file_worker.s3.head_object(**key)["ContentLength"] == 12_000_000
    assert key["Key"].endswith(f"/{lease.attempt}/named")


def test_a_job_cannot_read_objects_of_other_jobs(runner: JobRunner, file_worker: FileWorker) -> None:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/mine.txt", Body=b"mine")
    for area in ("files", "logs", "uploads"):
        file_worker.s3.put_object(Bucket=file_worker.bucket, Key=f"{area}/other-job/file", Body=b"secret")
    where = {"bucket": "{{ params.bucket }}", "key": "{{ params.key }}"}
    runner.define(
        step("read", inputs=[{"name": "in", "s3": where}]), params={"bucket": file_worker.bucket, "key": ""}
    )
    for number, key in enumerate(
        ["data/mine.txt", "files/other-job/file", "logs/other-job/file", "uploads/other-job/file"]
    ):
        runner.submit(f"t{number}", params={"key": key})
        [lease] = runner.take(1)
        if number == 0:
            assert file_worker.fetch(lease) == {"in": b"mine"}
        else:
            assert file_worker.ask(lease, 403, prepare=True)["code"] == "file-forbidden"


def test_a_plain_url_is_passed_to_the_worker_unchecked(runner: JobRunner, file_worker: FileWorker) -> None:
    file = {"name": "in", "url": "https://example.com/{{ params.day }}.csv", "size": 7}
    runner.define(step("read", inputs=[file]), params={"day": "monday"})
    runner.submit()
    [lease] = runner.take(1)
    [fetch] = file_worker.ask(lease, prepare=True)["prepared"]["files"]
    assert (fetch["url"], fetch["plain"], fetch["size"]) == ("https://example.com/monday.csv", True, 7)


def test_predata_is_identified_by_its_etag(runner: JobRunner, file_worker: FileWorker) -> None:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="ref", Body=b"reference")
    runner.define(step("read", predata=[{"name": "ref", "s3": {"bucket": file_worker.bucket, "key": "ref"}}]))
    runner.submit()
    [lease] = runner.take(1)
    [fetch] = file_worker.ask(lease, prepare=True)["prepared"]["files"]
    assert (fetch["kind"], fetch["size"]) == ("predata", 9)
    assert fetch["etag"].strip('"') == hashlib.md5(b"reference").hexdigest()


def upload(runner: JobRunner, file_worker: FileWorker, data: bytes, **headers: str) -> dict[str, Any]:
    body = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    response = runner.cloud.http("POST", "/v1/uploads", body)
    assert response.status == 200, response.json
    if not response.json["present"]:
        file_worker.s3.put_object(**place(response.json["url"]), Body=data)
    result: dict[str, Any] = response.json
    return result


def test_files_are_uploaded_with_a_job(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("read", inputs=[{"name": "in.txt"}, {"name": "more", "optional": True}]))
    uploaded = upload(runner, file_worker, b"hello")
    assert not uploaded["present"]
    assert upload(runner, file_worker, b"hello")["present"]
    files = [{"name": "in.txt", "upload": uploaded["upload"], "size": 5}]
    job = runner.submit(files=files)
    repeated = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t1", "files": files})
    assert (repeated.status, repeated.json["id"]) == (200, job["id"])
    [lease] = runner.take(1)
    file_worker.s3.delete_object(
        Bucket=file_worker.bucket, Key=f"uploads/{uploaded['upload']}"
    )  # the Job keeps its own copy
    assert file_worker.fetch(lease) == {"in.txt": b"hello"}
    runner.worker.report([lease], "failed-permanent")
    runner.run()
    assert [(each["name"], each.get("stepName")) for each in file_worker.listed()] == [("in.txt", None)]
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {"in.txt": b"hello"}


def test_invalid_files_are_rejected_and_no_job_is_created(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("read", inputs=[{"name": "in.txt"}]))

    def faults_of(files: list[dict[str, Any]]) -> list[tuple[str, str]]:
        response = runner.cloud.http(
            "POST", "/v1/jobs", {"jobName": "orders", "trigger": "t1", "files": files}
        )
        assert response.status == 422, response.json
        return [(each["pointer"], each["code"]) for each in response.json["faults"]]

    uploaded = upload(runner, file_worker, b"hello")
    valid = {"name": "in.txt", "upload": uploaded["upload"], "size": 5}
    assert faults_of([]) == [("/files", "missing-file")]
    assert faults_of([{**valid, "size": 6}]) == [("/files/0/size", "bad-value")]
    assert faults_of([valid, {**valid, "name": "other"}]) == [("/files/1/name", "unknown-file")]
    assert faults_of([valid, valid]) == [("/files/1/name", "duplicate-file")]
    unknown = "0" * 16 + uploaded["upload"][16:]
    assert faults_of([{**valid, "upload": unknown}]) == [("/files/0/upload", "unknown-upload")]
    assert faults_of([{**valid, "upload": "../x"}]) == [("/files/0/upload", "bad-value")]
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []


def test_a_file_name_outside_the_working_directory_is_rejected_after_rendering(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(step("make", outputs=[{"name": "{{ params.name }}"}]), params={"name": "fine"})
    response = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "orders", "trigger": "t", "params": {"name": "../x"}}
    )
    assert (response.status, response.json["faults"][0]["code"]) == (422, "bad-template")
    runner.define(step("make", items=["/etc/passwd"], outputs=[{"name": "{{ item }}"}]))
    runner.submit()
    [lease] = runner.take(1)
    assert "inside the work folder" in file_worker.ask(lease, 409, prepare=True)["detail"]


def test_a_task_that_cannot_be_rendered_fails_with_a_reason(runner: JobRunner) -> None:
    runner.define(step("each", items=[{"name": "a"}, {}], content="x {{ item.name }}"))
    runner.submit()
    leases = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    assert leases[0].fault is None
    assert leases[1].fault is not None
    assert "{{ item.name }} has no value here" in leases[1].fault


def test_a_rerun_keeps_the_files_of_tasks_that_succeeded(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(MAKE, step("next", inputs=[{"name": "part-*.csv", "origin": "make"}]))
    runner.submit()
    for lease in runner.take(3):
        number = lease.sharding.index
        if number == 1:
            runner.worker.report([lease], "failed-permanent")
        else:
            file_worker.end(lease, {f"part-{number}.csv": b"old %d" % number})
    runner.run()
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    [retried] = runner.take(1)
    file_worker.end(retried, {"part-1.csv": b"new 1"})
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {
        "part-0.csv": b"old 0",
        "part-1.csv": b"new 1",
        "part-2.csv": b"old 2",
    }
    runner.worker.report([lease])
    runner.run()
    assert [(each["index"], each["run"]) for each in file_worker.listed()] == [(0, 1), (1, 2), (2, 1)]


def test_files_are_listed_in_pages_and_deleted_with_the_job(
    runner: JobRunner, file_worker: FileWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(MAKE, step("other", outputs=[{"name": "x"}]))
    runner.submit()
    for lease in runner.take(4):
        number = lease.sharding.index
        file_worker.end(
            lease, {"x": b"x"} if lease.step_name == "other" else {f"part-{number}.csv": b"c", "log": b"l"}
        )
    runner.run()
    listed = [(each["stepName"], each["index"], each["name"]) for each in file_worker.listed(limit=2)]
    logs = [("make", n, name) for n in range(3) for name in (f"part-{n}.csv", "log")]
    assert listed == [*logs, ("other", 0, "x")]
    assert [each["name"] for each in file_worker.listed(step="other")] == ["x"]
    assert [each["index"] for each in file_worker.listed(name="log", limit=1)] == [0, 1, 2]
    assert runner.cloud.http("GET", "/v1/jobs/orders/t1/files?cursor=nonsense").status == 422
    job_id = runner.job()["id"]
    monkeypatch.setattr(delete, "PURGE_GRACE_MS", 0)
    assert runner.cloud.http("DELETE", "/v1/jobs/orders/t1?full=true").status == 204
    remaining = file_worker.s3.list_objects_v2(Bucket=file_worker.bucket, Prefix=f"files/{job_id}/")
    assert remaining["KeyCount"] == 0


def test_secrets_are_resolved_for_the_lease_holder_and_not_stored(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    import boto3

    ssm, manager = boto3.client("ssm"), boto3.client("secretsmanager")
    ssm.put_parameter(Name="/shardmill/key", Value="from-ssm", Type="SecureString")
    manager.create_secret(Name="shardmill/pass", SecretString="from-manager")
    private = {"A": "ssm:/shardmill/key", "B": "secretsmanager:shardmill/pass", "C": "plain"}
    command = {"name": "x", "environ": {"private": private}}
    runner.define({"stepName": "use", "command": command})
    runner.submit()
    [lease] = runner.take(1)
    assert lease.prepare
    assert not {"A", "B", "C"} & set(lease.environ)
    assert file_worker.ask(lease, prepare=True)["prepared"]["environ"] == {
        "A": "from-ssm",
        "B": "from-manager",
        "C": "plain",
    }
    rows = runner.cloud.clients.dynamodb.scan(TableName=runner.cloud.table)["Items"]
    assert "from-ssm" not in str(rows)
    assert "from-manager" not in str(rows)
    ssm.delete_parameter(Name="/shardmill/key")
    rejected = file_worker.ask(lease, 409, prepare=True)
    assert rejected["code"] == "file-unavailable"
    assert "ssm:/shardmill/key cannot be read: ParameterNotFound" in rejected["detail"]


@pytest.mark.parametrize(
    ("files", "pointer"),
    [
        ({"inputs": [{"name": "x-*"}]}, "/steps/0/inputs/0/name"),
        ({"inputs": [{"name": "x", "pattern": "y-*"}]}, "/steps/0/inputs/0/pattern"),
        ({"inputs": [{"name": "x", "url": "file:///etc/passwd"}]}, "/steps/0/inputs/0/url"),
        ({"outputs": [{"name": "/etc/passwd"}]}, "/steps/0/outputs/0/name"),
        ({"outputs": [{"name": "x", "origin": "a"}]}, "/steps/0/outputs/0/origin"),
        ({"inputs": [{"name": "x", "origin": "a"}]}, "/steps/0/inputs/0/origin"),
    ],
)
def test_invalid_file_declarations_are_rejected_when_the_definition_is_saved(
    runner: JobRunner, files: Any, pointer: str
) -> None:
    response = runner.cloud.http("PUT", "/v1/definitions/orders", {"steps": [{"stepName": "a", **files}]})
    assert response.status == 422
    assert pointer in [each["pointer"] for each in response.json["faults"]]


def test_the_files_of_a_task_have_their_sizes_after_the_run(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/ref", Body=b"reference")
    ref = {"name": "ref", "s3": {"bucket": file_worker.bucket, "key": "data/ref"}}
    inputs = [{"name": "part-*.csv", "origin": "make"}, {"name": "web", "url": "https://x.test/y"}]
    runner.define(
        MAKE,
        step("join", inputs=inputs, predata=[ref], outputs=[{"name": "all", "uploadName": "all.csv"}]),
    )
    runner.submit()
    runner.cloud.run_until(lambda: runner.states().get("make") == "READY")
    assert [file["size"] for file in runner.task("make", 1)["outputs"]] == [None, None]
    run_make_step(runner, file_worker)
    made = runner.task("make", 1)["outputs"]
    assert [(file["name"], file["size"], file["totalIndex"]) for file in made] == [
        ("part-1.csv", 2, None),
        ("log", 5, None),
    ]
    [lease] = runner.take(1)
    file_worker.end(lease, {"all.csv": b"0\n1\n2\n"})
    assert runner.run()["state"] == "SUCCESS"
    for view in (runner.task("join", 0), runner.step("join")):
        assert [file["size"] for file in view["inputs"]] == [6, None]
        assert [file["size"] for file in view["predata"]] == [9]
        assert [(file["name"], file["size"]) for file in view["outputs"]] == [("all", 6)]
    file_worker.s3.delete_object(Bucket=file_worker.bucket, Key="data/ref")
    assert runner.task("join", 0)["predata"][0]["size"] is None
