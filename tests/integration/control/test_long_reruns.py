"""Planning a rerun copies the tasks that it keeps in slices; nothing starts before all are copied."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from shardmill.engine.jobs.plan import plan
from shardmill.engine.running.finish import fail_job
from shardmill.model import blocks as layout
from shardmill.model.blocks import BLOCK_SIZE, block_count
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.long_work import (
    DONE,
    FAILED,
    OVERHEAD,
    REQUEST_CALLS,
    SLICE_CALLS,
    at_call,
    calls_of,
    job_row,
    lease_in_each_block,
    open_step,
    set_small_budgets,
    slices,
    task_states,
    write_blocks,
)

SET_SIZE = 8


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_budgets(monkeypatch)
    monkeypatch.setattr(layout, "SET_SIZE", SET_SIZE)


def failed_job(runner: JobRunner, faults: Faults, blocks: int, trigger: str = "t1") -> StepRow:
    """A Job with one failed task in each block of its step; the others succeeded."""
    step = open_step(runner, blocks, trigger)
    shards = dict.fromkeys(range(1, BLOCK_SIZE), DONE) | {0: FAILED}
    write_blocks(runner, step, range(block_count(step.total)), shards)
    runner.post(f"/v1/jobs/orders/{trigger}:force", {"state": "FAILED"})
    slices(runner, faults)
    assert runner.row(0, trigger).failed == blocks
    return step


def begin_rerun(runner: JobRunner, trigger: str = "t1") -> None:
    """Rerun what failed, and wait for the first slice."""
    runner.post(f"/v1/jobs/orders/{trigger}:rerun")
    wait_for_first_slice(runner)


def wait_for_first_slice(runner: JobRunner) -> None:
    runner.cloud.run_until(lambda: not runner.cloud.executions("job", "RUNNING"), 10)


def is_queued(runner: JobRunner, trigger: str = "t1") -> bool:
    return job_row(runner, trigger).state.value == "QUEUED"


def check_copy(runner: JobRunner, blocks: int, trigger: str = "t1") -> None:
    row = runner.row(0, trigger)
    assert row.total == blocks * BLOCK_SIZE
    sets = {str(number) for number in range(blocks // SET_SIZE)}
    assert row.open == (sets if row.two_levels else {str(number) for number in range(blocks)})
    assert task_states(runner, row) == {TaskState.READY: blocks, TaskState.SUCCESS: 63 * blocks}
    assert not job_row(runner, trigger).planning


def test_the_calls_of_a_slice_do_not_grow_with_the_tasks(runner: JobRunner, faults: Faults) -> None:
    found: dict[int, list[int]] = {}
    for blocks in (16, 64, 256):
        trigger = f"t{blocks}"
        failed_job(runner, faults, blocks, trigger)
        calls_of(faults)
        begin_rerun(runner, trigger)
        found[blocks] = [calls_of(faults), *slices(runner, faults)]
        runner.cloud.run_until(partial(is_queued, runner, trigger), 10)
        check_copy(runner, blocks, trigger)
    for calls in found.values():
        assert calls[0] <= REQUEST_CALLS + SLICE_CALLS + SET_SIZE + 2 * OVERHEAD, found
        assert max(calls[1:], default=0) <= SLICE_CALLS + SET_SIZE + OVERHEAD, found
    assert len(found[256]) > 3 * len(found[64]) - 4


def test_small_steps_that_are_copied_are_not_copied_again(runner: JobRunner, faults: Faults) -> None:
    steps = [{"stepName": f"s{n}", "sharding": 6 * BLOCK_SIZE, "maxTaskCount": 1} for n in range(20)]
    runner.define(*steps)
    runner.submit()
    runner.cloud.run_until(lambda: all(runner.row(n).token for n in range(20)), 30)
    for n in range(20):
        write_blocks(runner, runner.row(n), range(6), {0: DONE, 1: FAILED})
    runner.post("/v1/jobs/orders/t1:kill")
    slices(runner, faults)
    begin_rerun(runner)
    faults.calls.clear()
    *copying, _ = slices(runner, faults)  # the last also starts the steps
    assert max(copying) <= SLICE_CALLS + 6 + OVERHEAD
    runner.cloud.run_until(partial(is_queued, runner), 10)
    copied = [str(call.params["Item"]) for call in faults.calls if call.operation == "PutItem"]
    assert len(copied) == len(set(copied))
    assert task_states(runner, runner.row(19)) == {TaskState.SUCCESS: 6, TaskState.READY: 6}


def test_nothing_is_leased_before_all_is_copied(runner: JobRunner, faults: Faults) -> None:
    failed_job(runner, faults, 64)
    begin_rerun(runner)
    job = runner.job()
    assert (job["state"], job["run"], job["steps"][0]["state"]) == ("INIT", 2, "WAITING")
    assert runner.worker.take() == []
    [sentence] = runner.cloud.http("GET", "/v1/jobs/orders/t1:explain").json["sentences"]
    assert "will start when the tasks that it keeps of an earlier run have been copied" in sentence
    slices(runner, faults)
    assert len(runner.take(1)) == 1


def test_a_lost_event_is_replaced_by_the_tick(runner: JobRunner, faults: Faults) -> None:
    failed_job(runner, faults, 32)
    begin_rerun(runner)
    runner.cloud.published()  # lost
    for minute in range(2, 6):
        runner.tick(minutes=minute)
    runner.cloud.run_until(partial(is_queued, runner), 10)
    check_copy(runner, 32)


@pytest.mark.timeout(300)
def test_a_slice_that_crashes_after_any_call_is_continued(runner: JobRunner, faults: Faults) -> None:
    nth, crashed = 0, True
    while crashed:
        nth += 3
        trigger = f"t{nth}"
        failed_job(runner, faults, 16, trigger)
        faults.fail("stepfunctions", "StartExecution", how="throttle")  # the test plans the run
        runner.post(f"/v1/jobs/orders/{trigger}:rerun")
        job = job_row(runner, trigger)
        fault = faults.fail(nth=nth, how="crash")
        with suppress(ProcessKilled):
            plan(runner.mill, job.id, job.run, runner.worker.clock())
        faults.clear_faults()
        crashed = bool(fault.hits)
        for minute in range(2, 5):
            runner.tick(minutes=3 * nth + minute)
            slices(runner, faults)
        runner.cloud.run_until(partial(is_queued, runner, trigger), 10)
        check_copy(runner, 16, trigger)
    assert nth > 20


@pytest.mark.timeout(300)
def test_two_slices_at_once_copy_each_task_once(runner: JobRunner, faults: Faults) -> None:
    for nth in range(1, 40, 6):
        trigger = f"t{nth}"
        failed_job(runner, faults, 16, trigger)
        faults.fail("stepfunctions", "StartExecution", how="throttle")  # the test plans the run
        runner.post(f"/v1/jobs/orders/{trigger}:rerun")
        job = job_row(runner, trigger)
        one_slice = partial(plan, runner.mill, job.id, job.run, runner.worker.clock())
        with at_call(faults, nth, one_slice):
            one_slice()
        slices(runner, faults)
        runner.cloud.run_until(partial(is_queued, runner, trigger), 10)
        check_copy(runner, 16, trigger)


def test_a_rerun_during_a_kill_is_planned_when_the_tasks_have_ended(
    runner: JobRunner, faults: Faults
) -> None:
    step = open_step(runner, 64)
    lease_in_each_block(runner, step)
    runner.post("/v1/jobs/orders/t1:kill")
    assert runner.row(0).end_interrupted
    answer = runner.post("/v1/jobs/orders/t1:rerun")
    assert (answer["run"], answer["state"]) == (2, "INIT")
    wait_for_first_slice(runner)
    slices(runner, faults)
    runner.cloud.run_until(partial(is_queued, runner), 10)
    first = runner.mill.jobs.step(*step.key)
    assert first is not None
    assert (first.success, first.killed, first.ending) == (64, 64 * 63, False)
    assert task_states(runner, runner.row(0)) == {TaskState.SUCCESS: 64, TaskState.READY: 64}


ENDS: dict[str, tuple[str, str, dict[str, str] | None]] = {
    "killed": ("POST", ":kill", None),
    "forced": ("POST", ":force", {"state": "SUCCESS"}),
    "deleted": ("DELETE", "", None),
}


@pytest.mark.parametrize("end", [*ENDS, "failed"])
def test_a_rerun_that_ends_before_it_is_planned_ends_the_run_before_it(
    runner: JobRunner, faults: Faults, end: str
) -> None:
    step = open_step(runner, 160)
    lease_in_each_block(runner, step)
    runner.post("/v1/jobs/orders/t1:kill")
    job_id = job_row(runner).id
    runner.post("/v1/jobs/orders/t1:rerun")
    wait_for_first_slice(runner)
    if end == "failed":
        fail_job(runner.mill, job_id, 2, "the definition cannot be read", runner.worker.clock())
    else:
        method, action, body = ENDS[end]
        answer = runner.cloud.http(method, f"/v1/jobs/orders/t1{action}", body)
        assert answer.status in (200, 204), answer
    assert unended(runner, step)
    slices(runner, faults)
    assert not unended(runner, step)
    present = runner.mill.jobs.get(job_id)
    assert present is not None
    assert (present.run, present.state.ended, present.event_pending) == (2, True, False)
    assert not runner.cloud.executions("step", "RUNNING")


def unended(runner: JobRunner, step: StepRow) -> bool:
    """Whether tasks of a step that was ended have not ended yet."""
    present = runner.mill.jobs.step(*step.key)
    assert present is not None
    return present.end_interrupted


def test_a_rerun_of_a_suspended_job_ends_it_in_slices(runner: JobRunner, faults: Faults) -> None:
    step = open_step(runner, 64)
    lease_in_each_block(runner, step)
    runner.post("/v1/jobs/orders/t1:suspend")
    calls_of(faults)
    assert runner.post("/v1/jobs/orders/t1:rerun")["run"] == 2
    wait_for_first_slice(runner)
    slices(runner, faults)
    runner.cloud.run_until(partial(is_queued, runner), 10)
    assert task_states(runner, runner.row(0)) == {TaskState.SUCCESS: 64, TaskState.READY: 64}


def test_a_job_that_is_suspended_while_it_is_planned_continues_when_resumed(
    runner: JobRunner, faults: Faults
) -> None:
    failed_job(runner, faults, 128)
    begin_rerun(runner)
    runner.post("/v1/jobs/orders/t1:suspend")
    slices(runner, faults)
    assert job_row(runner).planning
    calls_of(faults)
    assert runner.post("/v1/jobs/orders/t1:resume")["state"] == "INIT"
    assert calls_of(faults) <= REQUEST_CALLS + SET_SIZE + 2 * OVERHEAD
    slices(runner, faults)
    runner.cloud.run_until(partial(is_queued, runner), 10)
    check_copy(runner, 128)


def test_a_job_that_is_killed_while_it_is_planned_keeps_its_results_in_the_next_run(
    runner: JobRunner, faults: Faults
) -> None:
    failed_job(runner, faults, 64)
    begin_rerun(runner)
    runner.post("/v1/jobs/orders/t1:kill")
    slices(runner, faults)
    assert runner.job()["steps"][0]["state"] == "KILLED"
    begin_rerun(runner)
    slices(runner, faults)
    runner.cloud.run_until(partial(is_queued, runner), 10)
    assert runner.job()["run"] == 3
    check_copy(runner, 64)


def test_a_step_cannot_be_changed_before_all_is_copied(runner: JobRunner, faults: Faults) -> None:
    failed_job(runner, faults, 128)
    begin_rerun(runner)
    problem = runner.post("/v1/jobs/orders/t1:kill", {"stepName": "big"}, status=409)
    assert "INIT; its steps are planned, and can be changed, when it starts" in problem["detail"]
