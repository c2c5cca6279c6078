"""Failures that suspend a worker: those of tasks that other workers complete."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shardmill.engine.groups.totals import record_totals
from shardmill.model.worker import Lease
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import MAX_FAILING, Tally
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def start(runner: JobRunner, tasks: int, name: str = "orders", **job: int) -> None:
    runner.define({"stepName": "a", "sharding": tasks}, name=name, **{"failedRetries": 0, **job})
    runner.submit(name=name)
    runner.cloud.run_until(lambda: runner.job(name=name)["steps"] and runner.row(0, name=name).token)


def take(runner: JobRunner, worker: ManualWorker, count: int) -> list[Lease]:
    held: list[Lease] = []
    runner.cloud.run_until(
        lambda: len(held) >= count, meanwhile=lambda: held.extend(worker.take(most=count - len(held)))
    )
    return held


def row(worker: ManualWorker) -> WorkerRow:
    found = worker.mill.workers.get(worker.row.id)
    assert found is not None
    return found


def live_workers(runner: JobRunner, count: int) -> Sequence[ManualWorker]:
    return [runner.worker, *(ManualWorker(runner.mill, f"w{number}") for number in range(1, count))]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_job_whose_tasks_all_fail_suspends_no_worker(runner: JobRunner, one_by_one: bool) -> None:
    workers = live_workers(runner, 3)
    start(runner, 60)
    for worker in workers * 2:
        held = take(runner, worker, 10)
        for leases in [[lease] for lease in held] if one_by_one else [held]:
            worker.report(leases, "failed")
    for worker in workers:
        assert (row(worker).failures, row(worker).tired) == (20, "")
        assert len(row(worker).failing) <= MAX_FAILING


def start_steps(runner: JobRunner, count: int, name: str = "orders") -> None:
    """Start a Job of many steps with one task each."""
    runner.define(*({"stepName": f"s{n}"} for n in range(count)), name=name, failedRetries=0)
    runner.submit(name=name)
    for index in range(count):
        runner.cloud.run_until(lambda index=index: runner.row(index, name=name).token)  # type: ignore[misc]


def test_a_job_with_many_steps_that_all_fail_suspends_no_worker(runner: JobRunner) -> None:
    workers = live_workers(runner, 3)
    start(runner, 3, name="good")
    for worker in workers:
        worker.report(take(runner, worker, 1))
    start_steps(runner, 24)
    for worker in workers:
        worker.report(take(runner, worker, 8), "failed")
    assert [(row(worker).failures, row(worker).tired) for worker in workers] == [(8, "")] * 3


def test_a_worker_that_fails_in_many_steps_while_others_succeed_is_suspended(runner: JobRunner) -> None:
    broken, good = live_workers(runner, 2)
    start_steps(runner, 12)
    held = take(runner, broken, 10)
    broken.report(held[:9], "failed")
    assert row(broken).takes_tasks  # the jobs may be at fault
    good.report(take(runner, good, 1))
    runner.mill.forget_workers(["default"])
    broken.report(held[9:], "failed")
    assert row(broken).tired == "suspended after 10 failures in a row"
    assert row(good).takes_tasks


def test_a_worker_that_fails_where_others_succeed_is_suspended_after_five_failures(runner: JobRunner) -> None:
    broken, *good = live_workers(runner, 3)
    start(runner, 30)
    for worker in good:
        worker.report(take(runner, worker, 10))
    held = take(runner, broken, 10)
    for lease in held[:4]:
        broken.report([lease], "failed")
    assert row(broken).takes_tasks
    broken.report(held[4:5], "failed")
    assert row(broken).tired == "suspended after 5 failures in a row"
    assert all(row(worker).takes_tasks for worker in good)


def test_a_broken_worker_is_suspended_once_others_have_completed_tasks(runner: JobRunner) -> None:
    """It fails fast, before the others complete anything: every fifth failure compares again."""
    broken, good = live_workers(runner, 2)
    start(runner, 30)
    slow = take(runner, good, 5)
    held = take(runner, broken, 10)
    broken.report(held[:5], "failed")
    assert row(broken).takes_tasks
    good.report(slow)
    for lease in held[5:9]:
        broken.report([lease], "failed")
        assert row(broken).takes_tasks
    broken.report(held[9:], "failed")
    assert not row(broken).takes_tasks


def test_tasks_that_fail_on_other_workers_too_count_once(runner: JobRunner) -> None:
    """The first ten tasks succeed, the others fail on every worker."""
    first, second = live_workers(runner, 2)
    start(runner, 20, failedRetries=1, failedInterval=0)
    first.report(take(runner, first, 10))
    bad = take(runner, second, 10)
    second.report(bad[:4], "failed")
    first.report(take(runner, first, 4), "failed")  # the same four tasks
    second.report(bad[4:5], "failed")
    assert row(second).takes_tasks


def test_a_broken_worker_alone_is_suspended_by_five_jobs(runner: JobRunner) -> None:
    for number in range(5):
        assert row(runner.worker).takes_tasks
        start(runner, 3, name=f"job{number}")
        runner.worker.report(take(runner, runner.worker, 3), "failed")
    assert row(runner.worker).tired == "suspended after 15 failures in a row"


def test_a_success_of_the_worker_begins_a_new_series(runner: JobRunner) -> None:
    for number in range(6):
        start(runner, 2, name=f"job{number}")
        held = take(runner, runner.worker, 2)
        runner.worker.report(held[:1], "failed")
        if number == 2:
            runner.worker.report(held[1:])
    assert row(runner.worker).takes_tasks
    assert len(row(runner.worker).failing) == 3


def test_the_comparison_with_other_workers_is_read_only_at_every_fifth_failure(
    runner: JobRunner, faults: Faults
) -> None:
    start(runner, 20)
    held = take(runner, runner.worker, 10)
    calls = []
    for lease in held:
        faults.meter.reset()
        runner.worker.report([lease], "failed")
        calls.append(faults.meter.total_calls)
    usual = calls[0]
    assert calls[1:4] == [usual] * 3
    assert calls[5:9] == [usual] * 4
    assert calls[4] == calls[9] == usual + 2  # the step, and the blocks of its tasks


def test_series_within_one_batch_are_counted_like_single_reports(runner: JobRunner) -> None:
    """A worker straight to AWS may write several reports at once, with a success among them."""
    broken, good = live_workers(runner, 2)
    start(runner, 30)
    good.report(take(runner, good, 5))
    held = take(runner, broken, 8)
    tally, later = Tally(), Tally()
    for lease in held[:6]:
        tally.failure(lease.task_id, lease.run, 1)
    later.success(held[6].task_id, 1)
    tally.add(later)
    assert (tally.longest.count, tally.before.count, tally.failures.count) == (6, 6, 0)
    record_totals(broken.mill, broken.row.id, tally, broken.clock())
    assert not row(broken).takes_tasks
    assert (row(broken).failures, row(broken).failing) == (0, set())


@pytest.mark.parametrize("retries", [0, 1])
def test_a_broken_worker_that_is_much_faster_than_the_others_is_suspended(
    runner: JobRunner, retries: int
) -> None:
    """One step of several blocks: the broken worker fails ten tasks for each that the other completes."""
    broken, good = live_workers(runner, 2)
    start(runner, 200, failedRetries=retries, failedInterval=0)
    failed = 0
    while row(broken).takes_tasks and failed < 60:
        slow = take(runner, good, 1)
        held = broken.take()  # with retries, some of its failed tasks are delivered to it first, and bounce
        broken.report(held, "failed")
        failed += len(held)
        good.report(slow)
    assert 5 <= failed <= 20
    assert row(good).takes_tasks
