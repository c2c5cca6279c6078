"""Suspend, resume, change and delete Jobs with many steps or rows: each call is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.aws.machines import Machines
from shardmill.engine.control import delete
from shardmill.store import keys
from shardmill.store.codec import encode_item
from shardmill.store.table import Table
from shardmill.store.tasks.keys import TASK_PARTITIONS
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.long_work import (
    DONE,
    OVERHEAD,
    REQUEST_CALLS,
    SLICE_CALLS,
    calls_of,
    job_row,
    open_step,
    set_small_budgets,
    slices,
    write_blocks,
)

STEPS = 40
UNIT = 10
"""The calls for one step."""


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_budgets(monkeypatch)


def open_steps(runner: JobRunner, **job: Any) -> None:
    runner.define(*[{"stepName": f"s{n}"} for n in range(STEPS)], **job)
    runner.submit()
    runner.cloud.run_until(lambda: all(runner.row(n).token for n in range(STEPS)), 60)


def states(runner: JobRunner) -> set[str]:
    job = job_row(runner)
    return {step.state.value for step in runner.mill.jobs.steps(job.id, job.run) if step.kind == "step"}


def request(runner: JobRunner, faults: Faults, action: str, body: Any = None) -> None:
    """Post an action, check its calls without those of the answer, and continue it."""
    calls_of(faults)
    runner.post(f"/v1/jobs/orders/t1:{action}", body)
    assert calls_of(faults) <= REQUEST_CALLS + UNIT + OVERHEAD
    continued = slices(runner, faults)
    assert continued
    assert max(continued) <= SLICE_CALLS + UNIT + OVERHEAD


@pytest.mark.timeout(300)
@pytest.mark.parametrize("job", [{}, {"concurrency": 1}], ids=["plain", "concurrency"])
def test_many_steps_are_suspended_and_resumed_in_slices(
    runner: JobRunner, faults: Faults, job: dict[str, Any]
) -> None:
    open_steps(runner, **job)
    runner.cloud.published()
    request(runner, faults, "suspend")
    assert states(runner) == {"SUSPENDED"}
    assert not job_row(runner).event_pending
    request(runner, faults, "resume")
    assert states(runner) == {"READY"}
    assert runner.run(timeout=60)["state"] == "SUCCESS"


def test_a_job_that_is_resumed_before_it_was_planned_starts_its_steps_in_slices(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: set[int] = set()
    monkeypatch.setattr(Machines, "start_job", lambda *_: None)
    monkeypatch.setattr(Machines, "start_step", lambda _, job_id, run, index, *more: started.add(index))
    runner.define(*[{"stepName": f"s{n}"} for n in range(STEPS)])
    runner.submit()
    runner.post("/v1/jobs/orders/t1:suspend")
    runner.post("/v1/jobs/orders/t1:resume")
    assert 0 < len(started) <= REQUEST_CALLS
    slices(runner, faults)
    assert len(started) == STEPS


def test_a_resume_while_a_job_is_being_suspended_resumes_all_steps(runner: JobRunner, faults: Faults) -> None:
    open_steps(runner)
    runner.post("/v1/jobs/orders/t1:suspend")
    assert states(runner) == {"SUSPENDED", "READY"}
    runner.post("/v1/jobs/orders/t1:resume")
    slices(runner, faults)
    assert states(runner) == {"READY"}
    assert job_row(runner).state.value == "QUEUED"


def test_many_steps_are_changed_in_slices(runner: JobRunner, faults: Faults) -> None:
    open_steps(runner)
    request(runner, faults, "change", {"priority": 20, "failedRetries": 3})
    job = job_row(runner)
    assert not job.unapplied
    assert {step.priority for step in runner.mill.jobs.steps(job.id, 1) if step.kind == "step"} == {20}


def test_the_tick_continues_a_change_and_a_suspension(runner: JobRunner, faults: Faults) -> None:
    open_steps(runner)
    runner.post("/v1/jobs/orders/t1:priority", {"priority": 20})
    assert job_row(runner).unapplied
    for minute in range(2, 6):
        runner.tick(minutes=minute)
    assert not job_row(runner).unapplied
    runner.post("/v1/jobs/orders/t1:suspend")
    runner.cloud.published()  # lost
    for minute in range(8, 12):
        runner.tick(minutes=minute)
    assert states(runner) == {"SUSPENDED"}
    assert "Job Suspended" in {event["detail-type"] for event in runner.cloud.published()}


def test_a_full_deletion_is_continued_where_it_was(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete, "PURGE_BATCH", 100)
    monkeypatch.setattr(delete, "PURGE_GRACE_MS", 0)
    found: dict[int, list[int]] = {}
    for blocks in (100, 1_000):
        step = open_step(runner, blocks, f"t{blocks}")
        write_blocks(runner, step, range(blocks), dict.fromkeys(range(64), DONE))
        runner.post(f"/v1/jobs/orders/t{blocks}:force", {"state": "SUCCESS"})
        slices(runner, faults)
        table = Table(runner.cloud.clients.dynamodb, runner.cloud.table)
        table.batch_put([keys.counted(step.job_id, f"child{number}") for number in range(blocks)])
        assert runner.cloud.http("DELETE", f"/v1/jobs/orders/t{blocks}?full=true").status == 204
        found[blocks] = slices(runner, faults)
        assert runner.mill.jobs.get(step.job_id) is None
        assert runner.mill.jobs.step(*step.key) is None
        assert not list(table.query(keys.partition_of(keys.job(step.job_id)), consistent=True))
        assert not any(block.shards for block in runner.mill.shards.blocks(step, range(blocks)).values())
    most = SLICE_CALLS + 100 // 25 + TASK_PARTITIONS + OVERHEAD
    assert max(found[1_000]) <= most, found


def test_a_step_that_is_killed_before_its_execution_waits_is_woken_by_a_message(runner: JobRunner) -> None:
    step = open_step(runner, 1)
    place = {"TableName": runner.cloud.table, "Key": encode_item(keys.step(*step.key))}
    names = {"#token": "token"}
    table: Any = runner.cloud.clients.dynamodb
    table.update_item(**place, UpdateExpression="REMOVE #token", ExpressionAttributeNames=names)
    runner.post("/v1/jobs/orders/t1:kill", {"stepName": "big"})
    table.update_item(
        **place,
        UpdateExpression="SET #token = :token",
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=encode_item({":token": step.token}),
    )
    runner.cloud.run_until(runner.ended, 15, meanwhile=runner.worker.take)
    assert runner.states() == {"big": "KILLED"}
