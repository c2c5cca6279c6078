"""What a hostile review of groups, workers and sharing found, each as it was found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardmill.engine.control import change
from shardmill.engine.running import concurrency
from shardmill.engine.tasks import fair_share
from shardmill.engine.tasks import messages as task_messages
from shardmill.engine.tasks.lease import drop_void
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.workers import registry
from shardmill.model.actor import Actor
from shardmill.model.blocks import Shard
from shardmill.model.states import TaskState
from shardmill.model.worker import HeldTask, TaskProgress, output_size
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import heartbeat, lease, register, report, start_tasks

ME = Actor("me")


def opened(runner: JobRunner, name: str = "play", trigger: str = "t1") -> None:
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)


def test_an_output_is_measured_as_it_is_kept(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    numbers = [1] * 30_000
    assert output_size(numbers) == 60_001 < len(json.dumps(numbers))
    assert report(runner, me, lease(runner, me), output=numbers).status == 200
    assert runner.task("a", 0)["output"] == numbers


def test_a_forged_receipt_leaves_no_trace(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me, thief = register(runner), register(runner, "thief")
    [task] = lease(runner, me)
    assert report(runner, me, [task], output={"good": 1}).status == 200
    before = runner.task("a", 0)
    for attempt in (1, 7):
        forged = Shard(TaskState.RUNNING, attempt=attempt, worker=f"{thief['id']}.1", time=1)
        receipt = Receipt(1, "https://nowhere", "x", forged).encode()
        answer = report(
            runner, thief, [{**task, "attempt": attempt}], receipt=receipt, output={"evil": 1}, stderr="mine"
        )
        assert answer.status == 409
    assert runner.task("a", 0) == before


def test_the_same_result_twice_in_one_report(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    answer = report(runner, me, [task, task], output=[1])
    assert (answer.status, answer.json["items"][0]["status"]) == (200, "ok")


def test_a_deleted_group_does_not_hold_up_reports(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/gone", {})
    runner.worker = ManualWorker(runner.mill, "gone", ["gone"])
    runner.define({"stepName": "a", "sharding": 5, "maxTaskCount": 1}, workerGroup="gone")
    runner.submit()
    held = runner.take(1)
    runner.mill.groups.delete("gone")  # and not its queues: moto cannot bear messages of a queue that is gone
    runner.mill.recent_groups.discard("gone")
    assert [each.status for each in runner.worker.report(held)] == ["ok"]
    runner.tick(minutes=3)
    assert [each.status for each in runner.worker.report(held)] == ["already"]
    assert runner.job()["state"] == "FAILED"


def test_a_job_whose_start_failed_after_it_got_its_slot_starts_later(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    runner.submit("one")
    runner.cloud.run_until(lambda: runner.job("one")["state"] == "QUEUED")
    for trigger in ("two", "three"):
        runner.submit(trigger)
        runner.cloud.run_until(lambda trigger=trigger: runner.job(trigger)["state"] == "WAITING")
    one = runner.mill.jobs.find("play", "one")
    assert one is not None

    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(concurrency, "start_roots", fails)
        with pytest.raises(ConnectionError):
            concurrency.release_slot(runner.mill, one, runner.worker.clock())
    runner.tick(minutes=2)
    assert runner.job("two")["state"] == "QUEUED"
    for trigger in ("one", "two", "three"):
        assert runner.run(trigger=trigger)["state"] == "SUCCESS"


def test_a_newcomer_does_not_overtake_jobs_that_wait_for_a_slot(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    for trigger in ("one", "two"):
        runner.submit(trigger)
        runner.cloud.run_until(lambda trigger=trigger: runner.job(trigger)["state"] in ("QUEUED", "WAITING"))
    runner.mill.slots.release("play", [runner.job("one")["id"]])
    runner.submit("three")
    runner.cloud.run_until(lambda: runner.job("three")["state"] == "WAITING")
    runner.cloud.run_until(lambda: runner.job("two")["state"] == "QUEUED")
    assert runner.job("three")["state"] == "WAITING"


def test_messages_of_a_group_that_lived_for_a_while_are_moved(runner: JobRunner) -> None:
    for name in ("ga", "gb"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    ga = ManualWorker(runner.mill, "ga", ["ga"])
    clock = ga.clock
    runner.define({"stepName": "a", "sharding": 12, "maxTaskCount": 4}, workerGroups=["ga", "gb"])
    runner.submit()
    opened(runner)
    minutes = 3

    def pass_time(worker: ManualWorker) -> None:
        nonlocal minutes
        ahead = minutes * 60_000
        worker.clock = lambda: clock() + ahead
        worker.beat([])
        runner.tick(minutes=minutes)
        minutes += 3

    pass_time(ga)
    gb = ManualWorker(runner.mill, "gb", ["gb"])
    gb.beat([])
    ga.report(ga.take(2))
    gb.beat([], offline=True)

    def work() -> None:
        pass_time(ga)
        ga.report(ga.take())

    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 40, meanwhile=work)


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_what_was_leased_reaches_the_worker_whatever_fails_then(
    runner: JobRunner, faults: Faults, nth: int
) -> None:
    start_tasks(runner, 70)
    messages = [message for _ in range(8) for message in runner.worker.receive()]
    split = [message for message in messages if json.loads(message.body)[4] in (0, 1, 64)]
    assert len(split) == 3
    faults.fail("dynamodb", "UpdateItem", nth=nth, how="throttle")
    from shardmill.engine.groups.matching import Taker
    from shardmill.engine.tasks.lease import lease as lease_messages

    leases = lease_messages(runner.mill, Taker.of(runner.worker.row), split, runner.worker.clock())
    assert len(leases) >= 1
    running = [task["sharding"]["index"] for task in runner.step_tasks("a") if task["state"] == "RUNNING"]
    assert sorted(each.sharding.index for each in leases) == running


def test_a_priority_that_changes_before_the_plan_holds(
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
    opened(runner)
    assert (runner.job()["priority"], runner.row(0).priority) == (10, 10)
    assert runner.run()["state"] == "SUCCESS"


def test_room_is_made_though_the_first_try_failed(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.define({"stepName": "a", "sharding": 90})
    note, tries = runner.mill.groups.add_giant, []

    def fails_once(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise ConnectionError
        note(*given)

    monkeypatch.setattr(runner.mill.groups, "add_giant", fails_once)
    runner.submit()
    opened(runner)
    group = runner.mill.groups.get("default")
    assert group is not None
    assert len(group.giants) == 1


def test_a_shrunk_window_grows_with_the_workers(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "LEAST_WINDOW", 8)
    runner.define({"stepName": "a", "sharding": 60}, name="giant")
    runner.define({"stepName": "a"}, name="small")
    for name in ("giant", "small"):
        runner.submit(name=name)
        opened(runner, name)
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


def test_a_worker_s_row_stays_small_whatever_its_tasks_tell(runner: JobRunner) -> None:
    start_tasks(runner, 60)
    held = [each for _ in range(6) for each in runner.worker.take()]
    words = TaskProgress(percent=1, message="\u6f22" * 200)
    work = [
        HeldTask(task_id=each.task_id, attempt=each.attempt, run=each.run, progress=words) for each in held
    ]
    worker = runner.worker.row
    beat_ = registry.heartbeat(
        runner.mill, worker.id, worker.session, work, offline=False, now=runner.worker.clock()
    )
    assert len(beat_.worker.work) == 60
    assert len(json.dumps(beat_.worker.progress)) <= registry.MOST_PROGRESS_BYTES


def test_a_rejected_task_goes_to_another_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, rejectInterval=0)
    runner.submit()
    other = ManualWorker(runner.mill, "other")
    runner.worker.report(runner.take(1), "rejected")
    assert runner.worker.take() == []
    again: list[Any] = []
    runner.cloud.run_until(lambda: again, meanwhile=lambda: again.extend(other.take()))


def test_old_tasks_are_handed_back_by_a_new_message(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    from shardmill.engine.tasks.interruption import hand_back
    from shardmill.model.worker import HandedBack

    back = HandedBack(task_id=task["taskId"], attempt=1, receipt=task["receipt"])
    assert hand_back(runner.mill, me["id"], [back], runner.worker.clock() + 55_000) == [task["taskId"]]
    later = runner.worker.clock
    runner.worker.clock = lambda: later() + 56_000
    assert [each.attempt for each in runner.worker.take()] == [2]


def test_beats_end_what_is_followed_no_more(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    tasks = lease(runner, me)
    runner.cloud.http("GET", "/v1/jobs/play/t1/steps/a/tasks/0/logs")
    assert heartbeat(runner, me, tasks).json["followed"] == [tasks[0]["taskId"]]
    heartbeat(runner, me, [])
    row = runner.mill.workers.get(me["id"])
    assert row is not None
    assert row.followed == set()


def test_a_result_that_contradicts_an_earlier_one_changes_nothing(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    assert report(runner, me, [task], stdout="done").status == 200
    before = runner.task("a", 0)
    assert report(runner, me, [task], outcome="failed", stderr="no, not done").status == 409
    assert runner.task("a", 0) == before


def test_a_late_success_after_a_timeout_adds_what_it_printed_and_no_more(runner: JobRunner) -> None:
    start_tasks(runner, 1, timeoutSeconds=5, failedRetries=0)
    [held] = runner.take(1)
    clock = runner.worker.clock
    runner.worker.clock = lambda: clock() + 21_000
    assert runner.worker.beat([held]) == [held.task_id]
    [late] = runner.worker.report([held], stdout="at last")
    assert late.status == "stale-attempt"
    [attempt] = runner.task("a", 0)["attempts"]
    assert (attempt["reason"], attempt["outcome"], attempt["stdout"]) == ("timed-out", None, "at last")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert "longer than timeoutSeconds, 5" in runner.job()["notes"]


def test_a_worker_does_not_hold_what_others_took_from_it(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    other = ManualWorker(runner.mill, "other")
    clock = other.clock
    other.clock = lambda: clock() + 61_000
    receipt = Receipt.decode(task["receipt"])
    assert receipt is not None
    runner.mill.queues.hide([(receipt.message, 0)])
    assert [each.attempt for each in other.take()] == [2]
    row = runner.mill.workers.get(me["id"])
    assert row is not None
    assert row.work == set()


def test_void_messages_are_dropped_and_the_others_kept(runner: JobRunner) -> None:
    start_tasks(runner, 3)
    old = runner.worker.receive()
    assert runner.mill.jobs.raise_generation(runner.row(0)) is not None
    task_messages.send(runner.mill, runner.row(0), [1, 2], runner.worker.clock())
    new = runner.worker.receive()
    meant = drop_void(runner.mill, [*old, *new], runner.worker.clock())
    assert sorted(json.loads(message.body)[4] for message in meant) == [1, 2]
    assert meant == new
