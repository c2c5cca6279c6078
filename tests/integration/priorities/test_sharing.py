"""Priorities, fair shares and concurrency limits."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine.control import change
from shardmill.engine.running import concurrency
from shardmill.engine.tasks import fair_share, window
from shardmill.engine.workers import registry
from shardmill.model.actor import Actor
from shardmill.model.blocks import Block, Shard, block_count, block_size
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import StepRow
from shardmill.store.slots import Holder, Waiter
from support.aws_rules.faults import Faults, How
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def wait_until_open(runner: JobRunner, name: str = "orders", trigger: str = "t1") -> None:
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)


def test_a_job_of_high_priority_gets_the_next_free_slot(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 60}, name="many", priority=1)
    runner.define({"stepName": "a"}, name="urgent", priority=10)
    runner.submit(name="many")
    wait_until_open(runner, "many")
    runner.submit(name="urgent")
    wait_until_open(runner, "urgent")
    assert [held.job_name for held in runner.worker.take(1)][:1] == ["urgent"]


def test_the_priority_of_a_queued_job_can_change(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 30}, {"stepName": "b", "dependentStep": "a"})
    runner.submit("first")
    wait_until_open(runner, trigger="first")
    runner.submit("second")
    wait_until_open(runner, trigger="second")
    answer = runner.cloud.http("POST", "/v1/jobs/orders/second:priority", {"priority": 12})
    assert (answer.status, answer.json["priority"]) == (200, 12)
    assert [step["priority"] for step in runner.job("second")["steps"]] == [12, 12]
    first_ten = runner.take(10)
    assert {held.trigger for held in first_ten} == {"second"}
    runner.worker.report(first_ten)
    for trigger in ("second", "first"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"
    taken = Counter((held.trigger, held.step_name, held.sharding.index) for held in runner.leased)
    assert set(taken.values()) == {1}
    ended = runner.cloud.http("POST", "/v1/jobs/orders/second:priority", {"priority": 1})
    assert (ended.status, ended.json["code"]) == (409, "job-ended")
    wrong = runner.cloud.http("POST", "/v1/jobs/orders/second:priority", {"priority": "high"})
    assert (wrong.status, wrong.json["faults"][0]["pointer"]) == (422, "/priority")


def test_an_interrupted_priority_change_is_completed(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 25})
    runner.submit()
    wait_until_open(runner)
    faults.fail("sqs", "SendMessageBatch", nth=2, how="throttle")
    runner.cloud.http("POST", "/v1/jobs/orders/t1:priority", {"priority": 12})
    assert runner.row(0).resend
    runner.tick(minutes=2)
    assert runner.run()["state"] == "SUCCESS"


def drain_until(runner: JobRunner, name: str) -> int:
    """Work until a Job ends and return the number of tasks of other Jobs leased in the meantime."""
    others = 0

    def work() -> None:
        nonlocal others
        leases = runner.worker.take()
        runner.worker.report(leases)
        others += sum(held.job_name != name for held in leases)

    runner.cloud.run_until(lambda: runner.job(name=name)["state"] == "SUCCESS", 60, meanwhile=work)
    return others


@pytest.fixture
def least_window(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the limit to 8 tasks, because moto is too slow for thousands."""
    monkeypatch.setattr(fair_share, "LEAST_WINDOW", 8)
    return 8


def test_a_small_job_does_not_wait_for_a_giant_job(
    runner: JobRunner, least_window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a cached step would accept old messages for 2 s
    monkeypatch.setattr(runner.mill.recent_steps, "_keep_ms", -1)
    runner.define({"stepName": "a", "sharding": 120}, name="giant")
    runner.define({"stepName": "a", "sharding": 10}, name="small")
    runner.submit(name="giant")
    wait_until_open(runner, "giant")
    runner.worker.report(runner.take(20))
    runner.submit(name="small")
    wait_until_open(runner, "small")
    leased_before = drain_until(runner, "small")
    assert leased_before <= 2 * least_window
    assert runner.row(0, name="giant").window == least_window
    assert runner.run(name="giant", timeout=50)["steps"][0]["counts"] == {"SUCCESS": 120}
    assert runner.mill.groups.giants("default", most=10) == []


@pytest.mark.usefixtures("least_window")
def test_two_giant_jobs_share_a_group(runner: JobRunner) -> None:
    for name in ("one", "two"):
        runner.define({"stepName": "a", "sharding": 120}, name=name)
        runner.submit(name=name)
        wait_until_open(runner, name)
    taken: list[Lease] = []

    def work(count: int = 4) -> None:
        leases = runner.worker.take(count)
        runner.worker.report(leases)
        taken.extend(leases)

    runner.cloud.run_until(lambda: not runner.row(0, name="one").resend, 30, meanwhile=lambda: work(1))
    taken.clear()
    runner.cloud.run_until(lambda: len(taken) >= 60, 50, meanwhile=work)
    shares = Counter(held.job_name for held in taken[:60])
    assert min(shares["one"], shares["two"]) >= 15


def test_max_task_count_applies_while_jobs_share_a_group(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 200, "maxTaskCount": 3}, name="giant")
    runner.define({"stepName": "a", "sharding": 2}, name="small")
    for name in ("giant", "small"):
        runner.submit(name=name)
        wait_until_open(runner, name)
    held = [each for _ in range(5) for each in runner.worker.take()]
    assert Counter(each.job_name for each in held) == {"giant": 3, "small": 2}


def a_step(total: int, window: int, ended: set[int]) -> tuple[StepRow, dict[int, Block]]:
    step = StepRow(
        job_id="j",
        run=1,
        index=0,
        name="a",
        state=StepState.RUNNING,
        job_name="a",
        trigger="t",
        create_time=0,
        total=total,
        window=window,
    )
    blocks = {}
    for number in range(block_count(total)):
        ranks = range(number * 64, number * 64 + block_size(total, number))
        shards = {rank % 64: Shard(TaskState.SUCCESS, attempt=1) for rank in ranks if rank in ended}
        block = Block(number, len(ranks), shards)
        if not block.finished:
            blocks[number] = block
    return step, blocks


@settings(max_examples=100)
@given(st.data())
def test_a_step_sends_exactly_the_tasks_in_its_window(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 400))
    size = data.draw(st.integers(1, total))
    ended = data.draw(st.sets(st.integers(0, total - 1)))
    if data.draw(st.booleans()):  # tasks usually end in order
        ended = set(range(data.draw(st.integers(0, total)))) | {rank for rank in ended if rank % 7 == 0}
    step, blocks = a_step(total, size, ended)
    lines = [[rank for rank in range(line, total, size) if rank not in ended] for line in range(size)]
    assert list(window.sendable(step, blocks)) == sorted(line[0] for line in lines if line)


# concurrency


def states(runner: JobRunner, name: str = "orders") -> list[str]:
    listed = runner.cloud.http("GET", f"/v1/jobs?jobName={name}").json["items"]
    return [job["state"] for job in reversed(listed)]


def test_concurrency_limits_the_running_jobs_of_a_definition(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=2)
    for number in range(5):
        runner.submit(f"t{number}")
    runner.cloud.run_until(lambda: states(runner).count("WAITING") == 3)
    assert "the concurrency of orders is 2" in runner.job("t4")["waitingFor"][0]
    most = 0

    def work() -> None:
        nonlocal most
        held = runner.worker.take()
        most = max(most, len(held))
        runner.worker.report(held)

    runner.cloud.run_until(lambda: states(runner) == ["SUCCESS"] * 5, 60, meanwhile=work)
    assert most <= 2
    runner.cloud.run_until(lambda: runner.mill.slots.holders("orders") == set())
    assert list(runner.mill.slots.waiters("orders")) == []


@pytest.mark.parametrize("how", ["throttle", "crash"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_slot_is_released_when_a_call_fails_at_the_end_of_a_job(
    runner: JobRunner, faults: Faults, nth: int, how: How
) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("one")
    runner.cloud.run_until(lambda: states(runner) == ["QUEUED"])
    runner.submit("two")
    runner.cloud.run_until(lambda: states(runner) == ["QUEUED", "WAITING"])
    held = runner.take(1)
    fault = faults.fail("dynamodb", nth=nth, how=how, when=lambda call: "SLOTS#orders" in str(call.params))
    runner.worker.report(held)
    minutes = count(2, 2)

    def work() -> None:
        with suppress(FunctionError):  # the tick may fail
            runner.tick(next(minutes))
        runner.worker.work()

    runner.cloud.run_until(lambda: states(runner) == ["SUCCESS", "SUCCESS"], 50, meanwhile=work)
    runner.cloud.run_until(lambda: runner.mill.slots.holders("orders") == set(), meanwhile=work)
    assert fault.hits == 1


def test_the_tick_releases_slots_of_jobs_that_no_longer_exist(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.mill.slots.take("orders", Holder("00000000-0000-4000-8000-000000000000", 1), most=1)
    runner.submit("one")
    runner.cloud.run_until(lambda: states(runner) == ["WAITING"])
    runner.tick(minutes=2)
    assert runner.run(trigger="one")["state"] == "SUCCESS"


def test_a_slot_released_before_the_waiter_is_recorded_starts_the_waiting_job(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("one")
    runner.cloud.run_until(lambda: states(runner) == ["QUEUED"])
    add_waiter = runner.mill.slots.add_waiter
    ended: list[Any] = []

    def release_then_add(line: str, waiter: Waiter) -> bool:
        holder = runner.mill.jobs.find("orders", "one")
        assert holder is not None
        ended.append(holder.evolve(state=JobState.SUCCESS))
        concurrency.release_slot(runner.mill, ended[-1], runner.worker.clock())
        return add_waiter(line, waiter)

    monkeypatch.setattr(runner.mill.slots, "add_waiter", release_then_add)
    runner.submit("two")
    runner.cloud.run_until(lambda: ended and states(runner)[1] == "QUEUED")


def test_a_giant_job_keeps_its_window_for_a_job_of_another_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    ManualWorker(runner.mill, "other", ["other"])
    runner.define({"stepName": "a", "sharding": 200}, name="giant")
    runner.define({"stepName": "a"}, name="small", workerGroup="other")
    for name in ("giant", "small"):
        runner.submit(name=name)
        wait_until_open(runner, name)
    assert runner.row(0, name="giant").window == 200


def test_a_job_whose_start_failed_after_acquiring_its_slot_is_started_later(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("one")
    runner.cloud.run_until(lambda: runner.job("one")["state"] == "QUEUED")
    for trigger in ("two", "three"):
        runner.submit(trigger)
        runner.cloud.run_until(lambda trigger=trigger: runner.job(trigger)["state"] == "WAITING")
    one = runner.mill.jobs.find("orders", "one")
    assert one is not None
    ended = one.evolve(state=JobState.SUCCESS)

    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(concurrency, "start_roots", fails)
        concurrency.release_slot(runner.mill, ended, runner.worker.clock())
    runner.tick(minutes=2)
    assert runner.job("two")["state"] == "QUEUED"
    for trigger in ("one", "two", "three"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"


def test_a_new_job_does_not_overtake_jobs_waiting_for_a_slot(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    for trigger in ("one", "two"):
        runner.submit(trigger)
        runner.cloud.run_until(lambda trigger=trigger: runner.job(trigger)["state"] in ("QUEUED", "WAITING"))
    runner.mill.slots.release("orders", [Holder(runner.job("one")["id"], 1)])
    runner.submit("three")
    runner.cloud.run_until(lambda: runner.job("three")["state"] == "WAITING")
    runner.cloud.run_until(lambda: runner.job("two")["state"] == "QUEUED")
    assert runner.job("three")["state"] == "WAITING"


ME = Actor("me")


def test_a_priority_changed_before_the_plan_applies(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"})
    add, changed = runner.mill.jobs.add_steps, []

    def change_first(job: Any, nodes: Any) -> bool:
        if not changed:
            changed.append(change.change(runner.mill, job, {"priority": 10}, ME, runner.worker.clock()))
        return add(job, nodes)

    monkeypatch.setattr(runner.mill.jobs, "add_steps", change_first)
    runner.submit()
    wait_until_open(runner)
    assert (runner.job()["priority"], runner.row(0).priority) == (10, 10)
    assert runner.run()["state"] == "SUCCESS"


def test_a_giant_step_is_registered_after_a_failed_attempt(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a", "sharding": 90})
    add_giant, tries = runner.mill.groups.add_giant, []

    def fails_once(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise ConnectionError
        add_giant(*given)

    monkeypatch.setattr(runner.mill.groups, "add_giant", fails_once)
    runner.submit()
    wait_until_open(runner)
    assert len(runner.mill.groups.giants("default", most=10)) == 1


def test_a_shrunk_window_grows_with_the_number_of_workers(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_share, "LEAST_WINDOW", 8)
    runner.define({"stepName": "a", "sharding": 60}, name="giant")
    runner.define({"stepName": "a"}, name="small")
    for name in ("giant", "small"):
        runner.submit(name=name)
        wait_until_open(runner, name)
    assert runner.row(0, name="giant").window == 8
    worker = registry.register(
        runner.mill,
        registry.Registration(name="big", groups=["default"], slots=5),
        runner.worker.clock() + 180_000,
    )
    assert worker.slots == 5
    runner.tick(minutes=3)
    assert runner.row(0, name="giant").window == 20
    assert runner.run(name="giant", timeout=40)["state"] == "SUCCESS"
