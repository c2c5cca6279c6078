"""Rows stay below the 400 KB of an item after any number of changes to a job, a step or a worker."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.control import change
from shardmill.engine.running import kill
from shardmill.engine.workers import poll
from shardmill.model.history import Change
from shardmill.model.states import JobState
from shardmill.store import history
from shardmill.store.history import MAX_HISTORY_BYTES, surplus_entries
from shardmill.store.rows import JobRow
from support.scenarios.job_runner import JobRunner

LONGEST_REASON = "\N{SNOWMAN}" * 500
STEP = {"stepName": "a"}


def toggle(runner: JobRunner, job: JobRow, reason: str) -> JobRow:
    """Suspend a job that is not suspended, or resume it."""
    present = runner.mill.jobs.get(job.id)
    assert present is not None
    suspended = present.state is JobState.SUSPENDED
    state = JobState.QUEUED if suspended else JobState.SUSPENDED
    moved = runner.mill.jobs.move(job.id, 1, state, sources=(present.state,), now=1, due=None, reason=reason)
    assert moved is not None
    return moved


def open_job(runner: JobRunner) -> Any:
    runner.define(STEP)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    return runner.mill.jobs.find("orders", "t1")


@pytest.mark.usefixtures("faults")
def test_a_job_that_changed_its_state_hundreds_of_times_can_still_be_killed(runner: JobRunner) -> None:
    job = open_job(runner)
    for number in range(320):
        toggle(runner, job, f"{number} {LONGEST_REASON}")
    kill.kill(runner.mill, job, "operator", LONGEST_REASON, runner.worker.clock())
    row = runner.mill.jobs.get(job.id)
    assert row is not None
    assert sum(len(entry.encode()) for entry in row.history) <= MAX_HISTORY_BYTES
    entries = [Change.decode(entry) for entry in row.history]
    assert (entries[0].reason, entries[-1].state) == ("submitted", "KILLED")
    assert "319" in entries[-2].reason


def test_an_entry_that_is_appended_while_old_ones_are_removed_is_kept(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = open_job(runner)
    moved: list[Any] = []

    def append_another(entries: list[str]) -> range:
        surplus = surplus_entries(entries)
        if surplus and not moved:
            moved.append(job)
            toggle(runner, job, "the other writer")
        return surplus

    monkeypatch.setattr(history, "surplus_entries", append_another)
    while not moved:
        toggle(runner, job, LONGEST_REASON)
    row = runner.mill.jobs.get(job.id)
    assert row is not None
    assert Change.decode(row.history[-1]).reason == "the other writer"
    assert surplus_entries(row.history) == range(0)


def test_changes_of_more_steps_than_the_row_holds_are_rejected(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "MAX_CHANGES_BYTES", 40)
    open_job(runner)
    path = "/v1/jobs/orders/t1:change"
    runner.post(path, {"stepName": "a", "failedRetries": 2})
    before = runner.mill.jobs.find("orders", "t1")
    answer = runner.cloud.http("POST", path, {"stepName": "a", "priority": 3, "timeoutSeconds": 5})
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "too-many-changes")
    assert runner.mill.jobs.find("orders", "t1") == before


@pytest.mark.parametrize("query", ["", "?dryRun=true"])
def test_changes_of_single_steps_cannot_add_groups_without_limit(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A group stays in the job's row when its step gets another one, because messages may be in its queue."""
    monkeypatch.setattr(change, "MAX_GROUPS_BYTES", len("default") + len("first"))
    for name in ("first", "second"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {"kind": "pull"})
    open_job(runner)
    path = "/v1/jobs/orders/t1:group"
    runner.post(path, {"stepName": "a", "workerGroups": ["first"]})
    before = runner.mill.jobs.find("orders", "t1")
    answer = runner.cloud.http("POST", path + query, {"stepName": "a", "workerGroups": ["second"]})
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "too-many-changes")
    assert runner.mill.jobs.find("orders", "t1") == before
    runner.post(path, {"workerGroups": ["second"]})
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    assert job.groups == {"second"}


def test_a_worker_that_holds_too_many_tasks_gets_no_more(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "MAX_HELD", 2)
    worker = runner.post("/v1/workers", {"name": "w", "groups": ["default"]}, status=201)
    runner.define({"stepName": "a", "sharding": 4})
    runner.submit()
    request = {"workerId": worker["id"], "max": 2, "waitSeconds": 5}
    held = runner.post("/v1/work:lease", request)["items"]
    assert len(held) == 2
    answer = runner.cloud.http("POST", "/v1/work:lease", request)
    assert (answer.status, answer.json["code"]) == (409, "worker-suspended")
    assert "report or release some" in answer.json["detail"]


def test_a_request_that_is_too_large_for_its_row_is_rejected(runner: JobRunner) -> None:
    runner.define(STEP)
    body = {"jobName": "orders", "trigger": "large", "params": {"p": "x" * 120_000}}
    answer = runner.cloud.http("POST", "/v1/jobs", body)
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "job-too-large")
    assert runner.mill.jobs.find("orders", "large") is None
