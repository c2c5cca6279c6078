"""File names and object keys: a task cannot access files of other tasks or Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": "x", "dependentSteps": list(after), **more}


def test_a_task_does_not_read_the_file_of_a_task_with_another_index(
    runner: JobRunner, file_worker: FileWorker
) -> None:
    """The second task of `a` fails, which is tolerated, so the second task of `b` has no input."""
    runner.define(
        step("a", sharding=2, outputs=[{"name": "out"}], toleratedFailures=1),
        step("b", sharding=2, inputs=[{"name": "out", "origin": "a"}]),
    )
    runner.submit()
    for lease in runner.take(2):
        if lease.sharding.index:
            runner.worker.report([lease], "failed-permanent")
        else:
            file_worker.end(lease, {"out": b"of task 0"})
    first, second = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    assert file_worker.fetch(first) == {"out": b"of task 0"}
    assert file_worker.ask(second, 409, prepare=True)["detail"] == "step 'a' produced no file 'out'"


def test_all_tasks_can_read_a_file_that_only_one_task_produced(
    runner: JobRunner, file_worker: FileWorker
) -> None:
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
def test_names_with_special_characters_are_accepted(
    runner: JobRunner, file_worker: FileWorker, name: str
) -> None:
    runner.define(
        step("a", outputs=[{"name": name}]),
        step("b", inputs=[{"name": name, "origin": "a"}]),
    )
    runner.submit()
    [lease] = runner.take(1)
    file_worker.end(lease, {name: b"content"})
    [lease] = runner.take(1)
    assert file_worker.fetch(lease) == {name: b"content"}
    assert [file["name"] for file in file_worker.listed()] == [name]


@pytest.mark.parametrize(
    "key",
    [
        "files/{own}/../other-job/file",
        "files/./other-job/file",
        "./files/other-job/file",
        "/files/other-job/file",
        "//logs/other-job/file",
        "files//other-job/file",
        "data/../files/other-job/file",
    ],
)
def test_no_form_of_a_key_gives_access_to_another_job(
    runner: JobRunner, file_worker: FileWorker, key: str
) -> None:
    where = {"bucket": file_worker.bucket, "key": key.replace("{own}", "{{ job.id }}")}
    runner.define(step("read", inputs=[{"name": "in", "s3": where}]))
    runner.submit()
    [lease] = runner.take(1)
    assert file_worker.ask(lease, 403, prepare=True)["code"] == "file-forbidden"
