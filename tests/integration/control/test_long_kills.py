"""Ending the tasks of large steps is done in slices: each call is bounded, and a further one continues."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from shardmill.engine import continuation, repair
from shardmill.engine.running import close_step
from shardmill.model.blocks import BLOCK_SIZE
from shardmill.model.states import TaskState
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.long_work import (
    CHUNK,
    DONE,
    OVERHEAD,
    REQUEST_CALLS,
    RUNNING,
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

MOST_OF_REQUEST = REQUEST_CALLS + CHUNK + OVERHEAD
MOST_OF_SLICE = SLICE_CALLS + CHUNK + OVERHEAD


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_budgets(monkeypatch)


def new_id() -> str:
    return "id"


def sentences(runner: JobRunner) -> list[str]:
    found: list[str] = runner.cloud.http("GET", "/v1/jobs/orders/t1:explain").json["sentences"]
    return found


@pytest.mark.parametrize(("action", "body"), [("kill", {}), ("force", {"state": "FAILED"})])
def test_the_calls_of_a_request_and_of_a_slice_do_not_grow_with_the_tasks(
    runner: JobRunner, faults: Faults, action: str, body: dict[str, Any]
) -> None:
    found: dict[int, list[int]] = {}
    for blocks in (20, 80, 320):
        trigger = f"t{blocks}"
        lease_in_each_block(runner, open_step(runner, blocks, trigger))
        calls_of(faults)
        answer = runner.post(f"/v1/jobs/orders/{trigger}:{action}", body)
        assert answer["state"] == body.get("state", "KILLED")
        assert answer["steps"][0]["state"] == "KILLED"
        found[blocks] = [calls_of(faults), *slices(runner, faults)]
        ended = runner.row(0, trigger)
        assert (ended.success, ended.killed, ended.ending) == (blocks, 63 * blocks, False)
        assert (ended.open, ended.token, ended.end_cursor) == (set(), "", "")
        assert task_states(runner, ended) == {TaskState.SUCCESS: blocks, TaskState.KILLED: blocks}
    for calls in found.values():
        assert calls[0] <= MOST_OF_REQUEST, found
        assert max(calls[1:], default=0) <= MOST_OF_SLICE, found
    assert len(found[320]) > 3 * len(found[80]) - 3


def test_the_calls_of_a_kill_do_not_grow_with_the_steps(runner: JobRunner, faults: Faults) -> None:
    found: dict[int, list[int]] = {}
    for count in (10, 40, 160):
        trigger = f"t{count}"
        runner.define(*[{"stepName": f"s{n}", "phase": n} for n in range(count)])
        runner.submit(trigger)
        runner.cloud.run_until(lambda trigger=trigger: runner.row(0, trigger).token, 10)
        calls_of(faults)
        assert runner.post(f"/v1/jobs/orders/{trigger}:kill")["steps"][0]["state"] == "KILLED"
        found[count] = [calls_of(faults), *slices(runner, faults)]
        assert set(runner.states(trigger).values()) == {"KILLED"}
        assert not job_row(runner, trigger).event_pending
    for calls in found.values():
        assert calls[0] <= MOST_OF_REQUEST, found
        assert max(calls[1:], default=0) <= MOST_OF_SLICE, found


def test_finished_and_untouched_blocks_are_not_written(runner: JobRunner, faults: Faults) -> None:
    step = open_step(runner, 30)
    write_blocks(runner, step, range(3), dict.fromkeys(range(63), DONE) | {63: RUNNING})
    write_blocks(runner, step, range(3, 13), dict.fromkeys(range(64), DONE))
    faults.calls.clear()
    runner.post("/v1/jobs/orders/t1:kill")
    slices(runner, faults)
    swept = [call for call in faults.calls if "swept" in str(call.params.get("ExpressionAttributeNames"))]
    assert len(swept) == 4  # three with a leased task, and the first behind a finished one
    ended = runner.row(0)
    assert (ended.success, ended.killed) == (3 * 63 + 640, 3 + 17 * 64)


def test_a_lost_event_is_replaced_by_the_tick(runner: JobRunner, faults: Faults) -> None:
    lease_in_each_block(runner, open_step(runner, 60))
    runner.post("/v1/jobs/orders/t1:kill")
    assert runner.row(0).end_cursor
    runner.cloud.published()  # lost
    for minute in range(2, 8):
        runner.tick(minutes=minute)
    assert runner.row(0).killed == 60 * 63
    assert "Job Ended" in {event["detail-type"] for event in runner.cloud.published()}


def test_a_refused_event_is_replaced_by_the_tick(runner: JobRunner, faults: Faults) -> None:
    lease_in_each_block(runner, open_step(runner, 60))
    faults.fail("events", "PutEvents", how="throttle")
    assert runner.post("/v1/jobs/orders/t1:kill")["state"] == "KILLED"
    for minute in range(2, 8):
        runner.tick(minutes=minute)
    assert runner.row(0).killed == 60 * 63


def test_the_end_is_published_once_after_the_last_slice(runner: JobRunner) -> None:
    lease_in_each_block(runner, open_step(runner, 130))
    runner.post("/v1/jobs/orders/t1:kill")
    kinds: list[str] = []
    while events := runner.cloud.published():
        kinds += [event["detail-type"] for event in events]
        for event in events:
            if event["detail-type"] == continuation.JOBS_DUE:
                repair.repair_listed(runner.mill, event["detail"], 0, new_id)
    assert kinds.count("Jobs Due") > 1
    assert kinds.count("Job Ended") == 1
    assert kinds[-1] == "Job Ended"


def test_the_answers_are_correct_while_tasks_are_ended(runner: JobRunner, faults: Faults) -> None:
    lease_in_each_block(runner, open_step(runner, 60))
    runner.post("/v1/jobs/orders/t1:kill")
    assert runner.row(0).end_cursor
    assert runner.job()["steps"][0]["counts"] == {"KILLED": 60 * 64}
    assert runner.task("big", 59 * 64 + 1)["state"] == "KILLED"  # not reached yet
    assert "The open tasks of these steps are being ended: big." in sentences(runner)
    slices(runner, faults)
    assert runner.job()["steps"][0]["counts"] == {"SUCCESS": 60, "KILLED": 60 * 63}
    assert not any("are being ended" in sentence for sentence in sentences(runner))


def test_no_task_is_leased_while_tasks_are_ended(runner: JobRunner) -> None:
    step = open_step(runner, 60, maxTaskCount=640)
    write_blocks(runner, step, range(50), {0: DONE, 1: RUNNING})
    runner.post("/v1/jobs/orders/t1:kill")
    assert runner.row(0).end_interrupted
    assert runner.worker.take() == []


@pytest.mark.timeout(300)
def test_a_slice_that_crashes_after_any_call_is_continued(runner: JobRunner, faults: Faults) -> None:
    nth, crashed = 0, True
    while crashed:
        nth += 1
        trigger = f"t{nth}"
        lease_in_each_block(runner, open_step(runner, 45, trigger))
        runner.cloud.published()
        runner.post(f"/v1/jobs/orders/{trigger}:kill")
        [event] = [each for each in runner.cloud.published() if each["detail-type"] == "Jobs Due"]
        fault = faults.fail(nth=nth, how="crash")
        with suppress(ProcessKilled):
            repair.repair_listed(runner.mill, event["detail"], 0, new_id)
        faults.clear_faults()
        crashed = bool(fault.hits)
        for minute in range(2, 5):
            runner.tick(minutes=3 * nth + minute)
        ended = runner.row(0, trigger)
        assert (ended.success, ended.killed, ended.ending) == (45, 45 * 63, False), nth
        assert not job_row(runner, trigger).event_pending, nth
    assert nth > 20


@pytest.mark.timeout(300)
def test_two_slices_at_once_count_each_task_once(runner: JobRunner, faults: Faults) -> None:
    for nth in range(1, 40, 3):
        trigger = f"t{nth}"
        lease_in_each_block(runner, open_step(runner, 45, trigger))
        runner.post(f"/v1/jobs/orders/{trigger}:kill")
        one_slice = partial(
            repair.repair, runner.mill, job_row(runner, trigger).id, runner.worker.clock(), new_id
        )
        with at_call(faults, nth, one_slice):
            one_slice()
        for minute in range(2, 5):
            runner.tick(minutes=3 * nth + minute)
        ended = runner.row(0, trigger)
        assert (ended.success, ended.killed, ended.ending) == (45, 45 * 63, False), nth


def test_a_repeated_kill_continues_it(runner: JobRunner) -> None:
    lease_in_each_block(runner, open_step(runner, 40))
    for _ in range(3):
        assert runner.post("/v1/jobs/orders/t1:kill")["state"] == "KILLED"
    assert runner.row(0).killed == 40 * 63


def test_a_resume_during_a_kill_is_refused_with_the_state(runner: JobRunner) -> None:
    lease_in_each_block(runner, open_step(runner, 60))
    runner.post("/v1/jobs/orders/t1:kill")
    problem = runner.post("/v1/jobs/orders/t1:resume", status=409)
    assert problem["code"] == "job-ended"
    assert "KILLED; rerun it instead" in problem["detail"]


def test_a_deletion_hides_the_job_at_once_and_ends_its_tasks_later(runner: JobRunner, faults: Faults) -> None:
    step = open_step(runner, 130)
    lease_in_each_block(runner, step)
    calls_of(faults)
    assert runner.cloud.http("DELETE", "/v1/jobs/orders/t1").status == 204
    assert calls_of(faults) <= MOST_OF_REQUEST
    assert runner.cloud.http("GET", "/v1/jobs/orders/t1").status == 404
    assert runner.submit(params={"again": 1})["id"] != step.job_id
    ends = [each["detail"] for each in runner.cloud.published() if each["detail-type"] == "Job Ended"]
    assert [(end["jobId"], end["state"]) for end in ends] == [(step.job_id, "KILLED")]
    for minute in range(2, 9):
        runner.tick(minutes=minute)
    job, ended = runner.mill.jobs.get(step.job_id), runner.mill.jobs.step(*step.key)
    assert job is not None
    assert ended is not None
    assert (job.state, job.ending, ended.killed) == ("DELETED", False, 130 * 63)
    due = runner.mill.watches.due(runner.worker.clock() + 10**9, limit=100)
    assert step.job_id not in {each.job_id for each in due}


def test_the_dependents_of_a_forced_step_start_when_its_tasks_have_ended(
    runner: JobRunner, faults: Faults
) -> None:
    big = {"stepName": "big", "sharding": 60 * BLOCK_SIZE, "maxTaskCount": 1}
    runner.define(big, {"stepName": "after", "dependentStep": "big"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.row(0).token, 30)
    lease_in_each_block(runner, runner.row(0))
    calls_of(faults)
    runner.post("/v1/jobs/orders/t1:force", {"state": "SUCCESS", "stepName": "big"})
    assert calls_of(faults) <= MOST_OF_REQUEST
    assert runner.states() == {"big": "SUCCESS", "after": "WAITING"}
    assert runner.job()["steps"][0]["counts"] == {"KILLED": 60 * 64}
    assert "The open tasks of these steps are being ended: big." in sentences(runner)
    assert max(slices(runner, faults)) <= MOST_OF_SLICE
    runner.cloud.run_until(lambda: runner.states()["after"] == "READY", 10)
    assert runner.run()["state"] == "SUCCESS"


def test_a_report_while_a_step_fails_is_counted_or_refused(runner: JobRunner, faults: Faults) -> None:
    """A report after the blocks were read and before the step's row was written was not counted."""
    for nth in range(1, 12):
        trigger = f"t{nth}"
        runner.define({"stepName": "a", "sharding": 3})
        runner.submit(trigger)
        held = runner.take(3)
        runner.cloud.run_until(lambda trigger=trigger: runner.row(0, trigger).token, 10)
        step, statuses = runner.row(0, trigger), list[str]()

        def report(held: list[Any] = held, statuses: list[str] = statuses) -> None:
            statuses.extend(each.status for each in runner.worker.report(held[:1]))

        with at_call(faults, nth, report):
            close_step.fail_step(runner.mill, *step.key, "its execution is ABORTED", runner.worker.clock())
        succeeded = statuses.count("ok")
        ended = runner.row(0, trigger)
        assert (ended.success, ended.killed) == (succeeded, 3 - succeeded), nth
        assert task_states(runner, ended)[TaskState.SUCCESS] == succeeded, nth
        assert runner.job(trigger)["steps"][0]["counts"].get("SUCCESS", 0) == succeeded
        [waiting] = runner.cloud.executions("step", "RUNNING")
        runner.cloud.clients.stepfunctions.stop_execution(executionArn=waiting["executionArn"])
