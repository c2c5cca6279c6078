"""Jobs that wait for a slot or for other Jobs: their rows do not grow, and each of them starts."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.aws.machines import Machines
from shardmill.engine.control import suspend
from shardmill.engine.mill import Mill
from shardmill.engine.running import concurrency, kill
from shardmill.store.rows import JobRow
from shardmill.store.slots import Holder, Waiter
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards

STEP = {"stepName": "a"}
DAY = "2026-01-05T00:00:00Z"


def states(runner: JobRunner) -> list[str]:
    listed = runner.cloud.http("GET", "/v1/jobs?jobName=orders&limit=1000").json["items"]
    return [job["state"] for job in reversed(listed)]


def job_row(runner: JobRunner, trigger: str) -> JobRow:
    job = runner.mill.jobs.find("orders", trigger)
    assert job is not None
    return job


def waiting_ids(runner: JobRunner) -> list[str]:
    return [waiter.job_id for waiter in runner.mill.slots.waiters("orders")]


def submit_queued(runner: JobRunner, *triggers: str, running: int) -> None:
    """Submit Jobs and wait until `running` of them have started and the others wait for a slot."""
    for trigger in triggers[:running]:
        runner.submit(trigger)
    # the slots are taken in the order of the plans, not of the submissions
    runner.cloud.run_until(lambda: states(runner) == ["QUEUED"] * running)
    for trigger in triggers[running:]:
        runner.submit(trigger)
    expected = ["QUEUED"] * running + ["WAITING"] * (len(triggers) - running)
    runner.cloud.run_until(lambda: states(runner) == expected)


def test_waiting_for_a_slot_does_not_write_the_job_at_every_tick(runner: JobRunner) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", "two", "three", running=1)
    runner.tick(minutes=2)
    before = [(job_row(runner, t).history, job_row(runner, t).update_time) for t in ("two", "three")]
    for minutes in range(4, 24, 2):
        runner.tick(minutes)
    assert [(job_row(runner, t).history, job_row(runner, t).update_time) for t in ("two", "three")] == before


def test_the_end_of_a_job_is_published_even_if_reading_the_waiting_jobs_fails(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", "two", running=1)

    def fail(*_: Any) -> Any:
        raise RuntimeError("cannot read the waiting jobs")

    with monkeypatch.context() as patch:
        patch.setattr(runner.mill.slots, "waiters", fail)
        runner.run(trigger="one")
        assert not job_row(runner, "one").event_pending
    runner.tick(minutes=2)
    assert runner.run(trigger="two")["state"] == "SUCCESS"


def test_a_waiting_job_that_cannot_start_does_not_block_the_others(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(STEP, concurrency=2)
    submit_queued(runner, "first", "second", "bad", "good", running=2)
    start, bad = concurrency.start, job_row(runner, "bad").id

    def start_unless_bad(mill: Mill, job: JobRow, now: int) -> None:
        if job.id == bad:
            raise RuntimeError("cannot be started")
        start(mill, job, now)

    with monkeypatch.context() as patch:
        patch.setattr(concurrency, "start", start_unless_bad)
        for trigger in ("first", "second", "good"):
            assert runner.run(trigger=trigger)["state"] == "SUCCESS"
    runner.tick(minutes=2)
    assert runner.run(trigger="bad")["state"] == "SUCCESS"


@pytest.mark.parametrize("action", ["kill", "delete", "delete in full"])
def test_jobs_removed_while_waiting_for_a_slot_leave_no_entry(runner: JobRunner, action: str) -> None:
    runner.define(STEP, concurrency=1)
    removed = [f"removed{number}" for number in range(11)]
    submit_queued(runner, "first", "next", *removed, "last", running=1)
    for trigger in removed:
        if action == "kill":
            runner.post(f"/v1/jobs/orders/{trigger}:kill")
        else:
            full = str(action == "delete in full").lower()
            assert runner.cloud.http("DELETE", f"/v1/jobs/orders/{trigger}?full={full}").status == 204
    assert waiting_ids(runner) == [job_row(runner, trigger).id for trigger in ("next", "last")]
    for trigger in ("first", "next", "last"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"


def test_entries_without_a_job_are_removed_and_do_not_block_waiting_jobs(runner: JobRunner) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "first", running=1)
    for number in range(25):
        missing = Waiter(-number, f"00000000-0000-4000-8000-0000000000{number:02}", 1)
        runner.mill.slots.add_waiter("orders", missing)
    runner.submit("second")
    assert runner.run(trigger="first")["state"] == "SUCCESS"
    assert runner.run(trigger="second")["state"] == "SUCCESS"
    runner.cloud.run_until(lambda: waiting_ids(runner) == [])


@pytest.mark.parametrize("parent_ends", ["before the rerun", "after the rerun"])
@pytest.mark.parametrize("end", ["killed", "expired"])
def test_a_job_that_ended_while_it_waited_for_its_parents_can_be_rerun(
    runner: JobRunner, end: str, parent_ends: str
) -> None:
    runner.define(STEP, name="parent")
    runner.define(STEP, name="child", dependencies=["parent"], expiredSeconds=3600)
    runner.submit("c1", "child", dataTime=DAY)
    if end == "killed":
        runner.post("/v1/jobs/child/c1:kill")
    else:
        runner.tick(minutes=120)
    assert runner.job("c1", "child")["state"] == ("KILLED" if end == "killed" else "FAILED")
    if parent_ends == "before the rerun":
        run_parent(runner)
    runner.post("/v1/jobs/child/c1:rerun", {"scope": "all"})
    if parent_ends == "after the rerun":
        assert runner.job("c1", "child")["state"] == "WAITING"
        run_parent(runner)
    assert runner.run(trigger="c1", name="child")["state"] == "SUCCESS"


def run_parent(runner: JobRunner) -> None:
    runner.submit("p1", "parent", dataTime=DAY)
    runner.run(trigger="p1", name="parent")
    runner.cloud.deliver_job_ends()


def failed_run(runner: JobRunner) -> JobRow:
    """The Job `one` of a definition with one slot, after it failed."""
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", running=1)
    runner.run(fail_shards(0), trigger="one")
    return job_row(runner, "one")


def test_a_repeated_end_of_an_earlier_run_does_not_release_the_slot_of_the_next_run(
    runner: JobRunner,
) -> None:
    first_run = failed_run(runner)
    runner.post("/v1/jobs/orders/one:rerun")
    runner.cloud.run_until(lambda: runner.job("one")["state"] == "QUEUED")
    concurrency.release_slot(runner.mill, first_run, first_run.update_time)
    runner.submit("two")
    runner.cloud.run_until(lambda: job_row(runner, "two").state.value in ("WAITING", "QUEUED"))
    assert states(runner) == ["QUEUED", "WAITING"]


def test_a_repeated_end_of_an_earlier_run_does_not_remove_the_next_run_from_the_line(
    runner: JobRunner,
) -> None:
    first_run = failed_run(runner)
    runner.submit("two")
    runner.cloud.run_until(lambda: runner.job("two")["state"] == "QUEUED")
    runner.post("/v1/jobs/orders/one:rerun")
    runner.cloud.run_until(lambda: runner.job("one")["state"] == "WAITING")
    concurrency.release_slot(runner.mill, first_run, first_run.update_time)
    assert waiting_ids(runner) == [first_run.id]


@pytest.mark.parametrize("end", ["planned", "killed before it is planned"])
def test_a_rerun_releases_the_slot_of_a_run_whose_end_was_interrupted(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", running=1)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(kill, "announce", lambda *_: None)
        runner.post("/v1/jobs/orders/one:kill")
    job = job_row(runner, "one")
    if end == "planned":
        runner.post("/v1/jobs/orders/one:rerun")
        runner.cloud.run_until(lambda: runner.job("one")["state"] == "QUEUED")
        assert runner.mill.slots.holders("orders") == {Holder(job.id, 2)}
    else:
        monkeypatch.setattr(Machines, "start_job", lambda *_: None)
        runner.post("/v1/jobs/orders/one:rerun")
        runner.post("/v1/jobs/orders/one:kill")
        assert runner.mill.slots.holders("orders") == set()


def test_a_suspension_that_is_completed_late_does_not_release_the_slot_of_the_resumed_job(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", "two", running=1)
    announce = suspend.announce

    def announce_late(mill: Mill, job: JobRow, now: int) -> None:
        monkeypatch.setattr(suspend, "announce", announce)
        runner.post("/v1/jobs/orders/one:resume")
        announce(mill, job, now)

    monkeypatch.setattr(suspend, "announce", announce_late)
    runner.post("/v1/jobs/orders/one:suspend")
    assert states(runner) == ["QUEUED", "WAITING"]
    for trigger in ("one", "two"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"


def test_the_slot_of_a_job_that_was_suspended_and_not_announced_is_released_by_the_next_in_line(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(STEP, concurrency=1)
    submit_queued(runner, "one", "two", running=1)
    with monkeypatch.context() as patch:
        patch.setattr(suspend, "announce", lambda *_: None)
        runner.post("/v1/jobs/orders/one:suspend")
    two = job_row(runner, "two")
    concurrency.recheck(runner.mill, two, two.update_time)
    assert states(runner) == ["SUSPENDED", "QUEUED"]
    runner.post("/v1/jobs/orders/one:resume")
    assert states(runner) == ["WAITING", "QUEUED"]


def test_a_job_that_gets_a_slot_again_starts_the_steps_that_became_ready_while_it_was_suspended(
    runner: JobRunner,
) -> None:
    runner.define(STEP, {"stepName": "b", "dependentStep": "a"}, concurrency=1)
    submit_queued(runner, "one", "two", running=1)
    held = runner.take(1)
    runner.post("/v1/jobs/orders/one:suspend", {"letFinish": True})
    runner.worker.report(held)
    runner.cloud.run_until(lambda: runner.states("one")["a"] == "SUCCESS")
    runner.cloud.run_until(lambda: states(runner) == ["SUSPENDED", "QUEUED"])
    runner.post("/v1/jobs/orders/one:resume")
    assert runner.run(trigger="two")["state"] == "SUCCESS"
    runner.cloud.run_until(lambda: runner.states("one")["b"] == "READY")


def test_checking_a_waiting_job_costs_the_same_however_many_jobs_wait_or_run(
    runner: JobRunner, faults: Faults
) -> None:
    costs = []
    for name, running, waiting in (("few", 1, 4), ("many", 5, 12)):
        runner.define(STEP, name=name, concurrency=running)
        triggers = [f"t{number}" for number in range(running + waiting)]
        for trigger in triggers[:running]:
            runner.submit(trigger, name)
            runner.cloud.run_until(lambda: runner.job(trigger, name)["state"] == "QUEUED")  # noqa: B023
        for trigger in triggers[running:]:
            runner.submit(trigger, name)
            runner.cloud.run_until(lambda: runner.job(trigger, name)["state"] == "WAITING")  # noqa: B023
        for trigger in triggers[:running]:
            runner.cloud.run_until(lambda: runner.row(0, trigger, name).token)  # noqa: B023
        runner.cloud.run_until(lambda: not runner.cloud.executions("job", status="RUNNING"))
        last = runner.mill.jobs.find(name, triggers[-1])
        assert last is not None
        faults.meter.reset()
        concurrency.recheck(runner.mill, last, last.update_time)
        costs.append((faults.meter.total_calls, faults.meter.calls["dynamodb.UpdateItem"]))
    assert costs[0] == costs[1]
    assert costs[1][1] == 0
