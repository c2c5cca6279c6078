"""Files of steps: their sources, who may access them, and which attempts count."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from shardmill.model.transfers import PART_BYTES
from support.scenarios.file_worker import FileWorker, md5s, place
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", "dependentSteps": list(after), **more}


MAKE = step(
    "make", sharding=3, outputs=[{"name": "part-{{ shard.index }}.csv"}, {"name": "log", "optional": True}]
)


def made(runner: JobRunner, file_worker: FileWorker) -> None:
    """Three tasks of a step `make` have stored a part each, and a log of the same name."""
    for lease in runner.take(3):
        number = lease.sharding.index
        assert lease.prepare
        file_worker.end(lease, {f"part-{number}.csv": b"%d\n" % number, "log": b"log %d" % number})


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ([{"name": "part-1.csv"}], {"part-1.csv": b"1\n"}),
        ([{"name": "part-*.csv"}], {f"part-{n}.csv": b"%d\n" % n for n in range(3)}),
        ([{"name": "*/log"}], {f"{n}/log": b"log %d" % n for n in range(3)}),
        ([{"name": "all.csv", "pattern": "part-*.csv"}], {"all.csv": b"0\n1\n2\n"}),
        ([{"name": "logs", "pattern": "log"}], {"logs": b"log 0log 1log 2"}),
        ([{"name": "other", "optional": True}], {}),
    ],
)
def test_a_step_reads_outputs_of_its_origin(
    runner: JobRunner, file_worker: FileWorker, inputs: Any, found: Any
) -> None:
    runner.define(MAKE, step("next", inputs=[{"origin": "make", **each} for each in inputs]))
    runner.submit()
    made(runner, file_worker)
    [lease] = runner.take(1)  # it waits for its origin without saying so
    assert file_worker.fetch(lease) == found
    runner.worker.report([lease])
    assert runner.run()["state"] == "SUCCESS"


def test_a_task_reads_the_file_of_the_same_task(runner: JobRunner, file_worker: FileWorker) -> None:
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
    ("file", "said"),
    [
        ({"name": "none.csv"}, "produced no file 'none.csv'"),
        ({"name": "x-*"}, "produced no file 'x-*'"),
        (
            {"name": "log"},
            "3 tasks of step 'make' produced a file 'log': read all with a pattern such as '*/log'",
        ),
    ],
)
def test_a_missing_or_ambiguous_input_fails_with_a_note(
    runner: JobRunner, file_worker: FileWorker, file: Any, said: str
) -> None:
    runner.define(MAKE, step("next", inputs=[{"origin": "make", **file}]))
    runner.submit()
    made(runner, file_worker)
    [lease] = runner.take(1)
    refused = file_worker.ask(lease, 409, prepare=True)
    assert refused["code"] == "file-unavailable"
    assert said in refused["detail"]


def test_only_the_attempt_that_counts_is_seen(runner: JobRunner, file_worker: FileWorker) -> None:
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


def test_a_worker_gets_urls_only_for_tasks_that_it_holds(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("make", sharding=2, outputs=[{"name": "out"}]))
    runner.submit()
    [mine, late] = runner.take(2)
    other = ManualWorker(runner.mill, "other")
    wish: dict[str, Any] = {"store": [{"name": "out", "size": 1, "md5s": md5s(b"x")}]}
    assert file_worker.ask(mine, 409, worker=other.row.id, **wish)["code"] == "stale-attempt"
    runner.worker.report([late])
    assert file_worker.ask(late, 409, **wish)["code"] == "stale-attempt"
    strange = [{"name": "passwd", "size": 1, "md5s": md5s(b"x")}]
    assert file_worker.ask(mine, 403, store=strange)["code"] == "file-forbidden"
    out = [{"name": "../out", "size": 1, "md5s": md5s(b"x")}]
    assert file_worker.ask(mine, 422, store=out)["faults"][0]["pointer"] == "/store/0/name"
    few = [{"name": "out", "size": 2 * PART_BYTES, "md5s": md5s(b"x")}]
    assert "needs 2 md5s" in file_worker.ask(mine, 409, store=few)["detail"]
    assert file_worker.ask(mine, 422)["faults"][0]["message"].startswith("needs exactly one of")


def test_a_large_output_is_a_resumable_multipart_upload(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("make", outputs=[{"name": "big", "uploadName": "named"}]))
    runner.submit()
    [lease] = runner.take(1)
    size = PART_BYTES + 10
    wish = [{"name": "named", "size": size, "md5s": [md5s(b"a")[0], md5s(b"b")[0]]}]
    answers = [file_worker.ask(lease, store=wish)["stored"][0] for _ in range(2)]
    assert answers[0]["uploadId"] == answers[1]["uploadId"]
    key = place(answers[0]["urls"][0])
    etags = [
        file_worker.s3.upload_part(
            **key, UploadId=answers[0]["uploadId"], PartNumber=number, Body=b"x" * 6_000_000
        )["ETag"]
        for number in (1, 2)
    ]
    done = {"name": "named", "uploadId": answers[0]["uploadId"], "etags": etags}
    for _ in range(2):  # the answer to the first may be lost
        file_worker.ask(lease, complete=done)
    assert file_worker.s3.head_object(**key)["ContentLength"] == 12_000_000
    assert key["Key"].endswith(f"/{lease.attempt}/named")


def test_a_job_reads_objects_but_not_those_of_other_jobs(runner: JobRunner, file_worker: FileWorker) -> None:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="data/mine.txt", Body=b"mine")
    for area in ("files", "logs", "uploads"):
        file_worker.s3.put_object(Bucket=file_worker.bucket, Key=f"{area}/somebody/else", Body=b"secret")
    where = {"bucket": "{{ params.bucket }}", "key": "{{ params.key }}"}
    runner.define(
        step("read", inputs=[{"name": "in", "s3": where}]), params={"bucket": file_worker.bucket, "key": ""}
    )
    for number, key in enumerate(
        ["data/mine.txt", "files/somebody/else", "logs/somebody/else", "uploads/somebody/else"]
    ):
        runner.submit(f"t{number}", params={"key": key})
        [lease] = runner.take(1)
        if number == 0:
            assert file_worker.fetch(lease) == {"in": b"mine"}
        else:
            assert file_worker.ask(lease, 403, prepare=True)["code"] == "file-forbidden"


def test_a_plain_address_is_the_workers_to_judge(runner: JobRunner, file_worker: FileWorker) -> None:
    file = {"name": "in", "url": "https://example.com/{{ params.day }}.csv", "size": 7}
    runner.define(step("read", inputs=[file]), params={"day": "monday"})
    runner.submit()
    [lease] = runner.take(1)
    [fetch] = file_worker.ask(lease, prepare=True)["prepared"]["files"]
    assert (fetch["url"], fetch["plain"], fetch["size"]) == ("https://example.com/monday.csv", True, 7)


def test_reference_data_is_identified_by_its_etag(runner: JobRunner, file_worker: FileWorker) -> None:
    file_worker.s3.put_object(Bucket=file_worker.bucket, Key="ref", Body=b"reference")
    runner.define(step("read", predata=[{"name": "ref", "s3": {"bucket": file_worker.bucket, "key": "ref"}}]))
    runner.submit()
    [lease] = runner.take(1)
    [fetch] = file_worker.ask(lease, prepare=True)["prepared"]["files"]
    assert (fetch["kind"], fetch["size"]) == ("predata", 9)
    assert fetch["etag"].strip('"') == hashlib.md5(b"reference").hexdigest()


def upload(runner: JobRunner, file_worker: FileWorker, data: bytes, **headers: str) -> dict[str, Any]:
    wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    answer = runner.cloud.http("POST", "/v1/uploads", wish)
    assert answer.status == 200, answer.json
    if not answer.json["present"]:
        file_worker.s3.put_object(**place(answer.json["url"]), Body=data)
    told: dict[str, Any] = answer.json
    return told


def test_files_are_uploaded_with_a_job(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("read", inputs=[{"name": "in.txt"}, {"name": "more", "optional": True}]))
    told = upload(runner, file_worker, b"hello")
    assert not told["present"]
    assert upload(runner, file_worker, b"hello")["present"]
    files = [{"name": "in.txt", "upload": told["upload"], "size": 5}]
    job = runner.submit(files=files)
    again = runner.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t1", "files": files})
    assert (again.status, again.json["id"]) == (200, job["id"])
    file_worker.s3.delete_object(
        Bucket=file_worker.bucket, Key=f"uploads/{told['upload']}"
    )  # the Job has its own
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {"in.txt": b"hello"}
    runner.worker.report([lease], "failed-permanent")
    runner.run()
    assert [(each["name"], each.get("stepName")) for each in file_worker.listed()] == [("in.txt", None)]
    assert runner.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {"in.txt": b"hello"}


def test_files_that_cannot_be_taken_change_nothing(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(step("read", inputs=[{"name": "in.txt"}]))

    def refused(files: list[dict[str, Any]]) -> list[tuple[str, str]]:
        answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t1", "files": files})
        assert answer.status == 422, answer.json
        return [(each["pointer"], each["code"]) for each in answer.json["faults"]]

    told = upload(runner, file_worker, b"hello")
    fine = {"name": "in.txt", "upload": told["upload"], "size": 5}
    assert refused([]) == [("/files", "missing-file")]
    assert refused([{**fine, "size": 6}]) == [("/files/0/size", "bad-value")]
    assert refused([fine, {**fine, "name": "other"}]) == [("/files/1/name", "unknown-file")]
    assert refused([fine, fine]) == [("/files/1/name", "duplicate-file")]
    foreign = "0" * 16 + told["upload"][16:]
    assert refused([{**fine, "upload": foreign}]) == [("/files/0/upload", "unknown-upload")]
    assert refused([{**fine, "upload": "../x"}]) == [("/files/0/upload", "bad-value")]
    assert runner.cloud.http("GET", "/v1/jobs").json["items"] == []


def test_a_name_outside_the_working_directory_is_rejected_even_from_a_value(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(step("make", outputs=[{"name": "{{ params.name }}"}]), params={"name": "fine"})
    answer = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "play", "trigger": "t", "params": {"name": "../x"}}
    )
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "bad-template")
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


def test_a_kept_task_keeps_its_files(runner: JobRunner, file_worker: FileWorker) -> None:
    runner.define(MAKE, step("next", inputs=[{"name": "part-*.csv", "origin": "make"}]))
    runner.submit()
    for lease in runner.take(3):
        number = lease.sharding.index
        if number == 1:
            runner.worker.report([lease], "failed-permanent")
        else:
            file_worker.end(lease, {f"part-{number}.csv": b"old %d" % number})
    runner.run()
    assert runner.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    [again] = runner.take(1)
    file_worker.end(again, {"part-1.csv": b"new 1"})
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {
        "part-0.csv": b"old 0",
        "part-1.csv": b"new 1",
        "part-2.csv": b"old 2",
    }
    runner.worker.report([lease])
    runner.run()
    assert [(each["index"], each["run"]) for each in file_worker.listed()] == [(0, 1), (1, 2), (2, 1)]


def test_files_are_listed_page_by_page_and_go_with_the_job(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    runner.define(MAKE, step("other", outputs=[{"name": "x"}]))
    runner.submit()
    for lease in runner.take(4):
        number = lease.sharding.index
        file_worker.end(
            lease, {"x": b"x"} if lease.step_name == "other" else {f"part-{number}.csv": b"c", "log": b"l"}
        )
    runner.run()
    everything = [(each["stepName"], each["index"], each["name"]) for each in file_worker.listed(limit=2)]
    logs = [("make", n, name) for n in range(3) for name in (f"part-{n}.csv", "log")]
    assert everything == [*logs, ("other", 0, "x")]
    assert [each["name"] for each in file_worker.listed(step="other")] == ["x"]
    assert [each["index"] for each in file_worker.listed(name="log", limit=1)] == [0, 1, 2]
    assert runner.cloud.http("GET", "/v1/jobs/play/t1/files?cursor=nonsense").status == 422
    job_id = runner.job()["id"]
    assert runner.cloud.http("DELETE", "/v1/jobs/play/t1?full=true").status == 204
    left = file_worker.s3.list_objects_v2(Bucket=file_worker.bucket, Prefix=f"files/{job_id}/")
    assert left["KeyCount"] == 0


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
    assert lease.environ["C"] == "plain"
    assert not {"A", "B"} & set(lease.environ)
    assert file_worker.ask(lease, prepare=True)["prepared"]["environ"] == {
        "A": "from-ssm",
        "B": "from-manager",
    }
    rows = runner.cloud.clients.dynamodb.scan(TableName=runner.cloud.table)["Items"]
    assert "from-ssm" not in str(rows)
    assert "from-manager" not in str(rows)
    ssm.delete_parameter(Name="/shardmill/key")
    refused = file_worker.ask(lease, 409, prepare=True)
    assert refused["code"] == "file-unavailable"
    assert "ssm:/shardmill/key cannot be read: ParameterNotFound" in refused["detail"]


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
def test_nonsense_is_refused_when_the_definition_is_saved(
    runner: JobRunner, files: Any, pointer: str
) -> None:
    answer = runner.cloud.http("PUT", "/v1/definitions/play", {"steps": [{"stepName": "a", **files}]})
    assert answer.status == 422
    assert pointer in [each["pointer"] for each in answer.json["faults"]]
