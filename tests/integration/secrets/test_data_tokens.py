"""Data tokens reach the tasks of their Job, and appear in nothing else that is written or answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine.control.delete import delete
from shardmill.engine.private_values import open_data_token
from support.scenarios.file_worker import FileWorker
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.secret_search import recorded_answers, rows_with, stored_elsewhere
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread

TOKEN = "OAuth un=ada|sig=5ecre7-2f9d"
AUTH = {"info": {"auth": True, "project": "p"}}
SHOW = 'printf %s "$SHARDMILL_DATA_TOKEN" | sha256sum | cut -c1-8'


def digest(token: str) -> str:
    """What SHOW prints: the token itself must not be logged."""
    return hashlib.sha256(token.encode()).hexdigest()[:8]


@pytest.fixture
def answers() -> Iterator[list[tuple[str, str]]]:
    with recorded_answers() as found:
        yield found


@pytest.mark.parametrize("form", ["direct", "http"])
def test_a_data_token_reaches_the_tasks_and_is_found_nowhere_else(
    runner: JobRunner,
    answers: list[tuple[str, str]],
    form: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner.define(
        {"stepName": "show", "content": SHOW, "sharding": 2},
        {"stepName": "fail", "command": {"name": "sh", "args": "-c 'exit 7'"}, "dependentStep": "show"},
        **AUTH,
    )
    job = runner.submit(dataToken=TOKEN)
    assert runner.submit(dataToken=TOKEN)["id"] == job["id"]
    with worker_thread(connect(runner.cloud, form)):
        assert wait_for_end(runner)["state"] == "FAILED"
    assert [runner.task("show", n)["stdout"] for n in range(2)] == [digest(TOKEN) + "\n"] * 2
    runner.post("/v1/jobs/orders/t1:rerun")
    with worker_thread(connect(runner.cloud, form), "again"):
        runner.cloud.run_until(lambda: runner.job()["run"] == 2 and runner.ended(), 20)
    one = "/v1/jobs/orders/t1"
    steps = [f"{one}/steps/{name}" for name in ("show", "fail")]
    tasks = [f"{step}/tasks" for step in steps]
    more = [f"{one}/history", f"{one}:why", f"{one}/files", f"{one}/dependencies", "/v1/jobs"]
    definitions = ["/v1/definitions/orders", "/v1/workers"]
    for path in (one, *steps, *tasks, *(f"{each}/0" for each in tasks), *more, *definitions):
        runner.cloud.http("GET", path)
    assert rows_with(runner, TOKEN) == []
    assert TOKEN not in stored_elsewhere(runner)
    assert TOKEN not in "".join(capfd.readouterr())
    assert TOKEN not in caplog.text
    assert {path for path, text in answers if TOKEN in text} <= {"/v1/work:urls"}


def test_only_the_worker_that_holds_a_task_gets_the_token(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": SHOW}, {"stepName": "n", "type": "noop"}, **AUTH)
    runner.submit(dataToken=TOKEN)
    leases = {lease.step_name: lease for lease in runner.take(2)}
    assert (leases["a"].prepare, leases["n"].prepare) == (True, False)
    assert TOKEN not in str([lease.model_dump() for lease in leases.values()])
    files = FileWorker(runner)
    assert files.ask(leases["a"], prepare=True)["prepared"]["environ"] == {"SHARDMILL_DATA_TOKEN": TOKEN}
    assert files.ask(leases["n"], prepare=True)["prepared"]["environ"] == {}
    other = ManualWorker(runner.mill, "other")
    assert files.ask(leases["a"], 409, worker=other.row.id, prepare=True)["code"] == "stale-attempt"
    runner.worker.report(leases.values())
    assert files.ask(leases["a"], 409, prepare=True)["code"] == "stale-attempt"


def test_a_job_without_a_token_has_no_variable(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": SHOW}, **AUTH)
    runner.submit()
    [lease] = runner.take(1)
    assert not lease.prepare
    assert "SHARDMILL_DATA_TOKEN" not in lease.environ


def test_a_parameter_cannot_replace_the_token(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": SHOW}, params={"SHARDMILL_DATA_TOKEN": "mine"}, **AUTH)
    runner.submit(dataToken=TOKEN)
    [lease] = runner.take(1)
    assert "SHARDMILL_DATA_TOKEN" not in lease.environ


@pytest.mark.parametrize("token", ["", " x", "a\nb", "é", 3, "x" * 4097])
def test_a_bad_token_is_rejected_without_repeating_it(runner: JobRunner, token: Any) -> None:
    runner.define({"stepName": "a", "content": SHOW}, **AUTH)
    answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "orders", "trigger": "t1", "dataToken": token})
    assert (answer.status, [each["pointer"] for each in answer.json["faults"]]) == (422, ["/dataToken"])
    assert "xxxx" not in answer.text


def test_a_token_needs_a_job_with_auth(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": SHOW})
    request = {"jobName": "orders", "trigger": "t1", "dataToken": TOKEN}
    answer = runner.cloud.http("POST", "/v1/jobs", request)
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/dataToken")
    assert runner.submit(dataToken=TOKEN, info={"auth": True})["info"]["auth"] is True


def test_the_token_is_not_part_of_the_identity_of_a_request(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "content": SHOW}, **AUTH)
    first = runner.submit(dataToken=TOKEN)
    assert runner.submit(dataToken="another")["id"] == runner.submit()["id"] == first["id"]
    assert open_data_token(runner.mill, first["id"], runner.mill.data_tokens.get(first["id"]) or "") == TOKEN


@pytest.mark.parametrize("full", [True, False])
def test_the_token_is_deleted_with_its_job(runner: JobRunner, full: bool) -> None:
    runner.define({"stepName": "a", "type": "noop"}, **AUTH)
    runner.submit(dataToken=TOKEN)
    runner.run()
    row = runner.mill.jobs.find("orders", "t1")
    assert row is not None
    assert runner.mill.data_tokens.get(row.id)
    delete(runner.mill, row, "me", runner.worker.clock(), full=full)
    assert runner.mill.data_tokens.get(row.id) is None
