"""logs of a task."""

import json

import pytest

from support.fakes.api import FakeApi, Run, log, task

JOB = "/v1/jobs/report/t1"


def test_logs_print_all_pages(api: FakeApi, run: Run) -> None:
    path = f"{JOB}/steps/main/tasks/2"
    pages = (log("één\n", 5, False), log("two", 8, True))
    api.on("GET", f"{path}/logs", *pages)
    assert run("logs", "report", "t1", "main", "2").stdout == "één\ntwo"
    api.on("GET", f"{path}/logs", *pages)
    result = run("logs", "report", "t1", "main", "2", "--stderr", "--json")
    assert json.loads(result.stdout) == {"stream": "stderr", "text": "één\ntwo"}
    assert api.requests[-1].query["stream"] == "stderr"
    api.on("GET", path, task(2, "RUNNING"), task(2, "SUCCESS"))
    api.on("GET", f"{path}/logs", *pages)
    result = run("logs", "report", "t1", "main", "2", "--follow", "--json")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["één\n", "two"]


@pytest.mark.parametrize("more", [[], ["--follow"]])
def test_logs_of_one_attempt_are_printed(api: FakeApi, run: Run, more: list[str]) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks/2/logs", log("one\n", 4, False), log("two\n", 8, True))
    assert run("logs", "report", "t1", "main", "2", "--attempt", "1", *more).stdout == "one\ntwo\n"
    assert [each.query["attempt"] for each in api.requests] == ["1", "1"]


def test_empty_log_prints_nothing(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks/2/logs", log("", 0, True))
    assert run("logs", "report", "t1", "main", "2").stdout == ""
    assert json.loads(run("logs", "report", "t1", "main", "2", "--json").stdout)["text"] == ""
