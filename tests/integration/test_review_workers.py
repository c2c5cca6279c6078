"""What a hostile review of groups, workers and sharing found, each as it was found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.test_workers_api import beat, lease, register, report, with_tasks
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
from support.faults import Faults
from support.hands import Hands
from support.play import Play

ME = Actor("me")


def opened(play: Play, name: str = "play", trigger: str = "t1") -> None:
    play.cloud.run_until(lambda: play.job(trigger, name)["steps"] and play.row(0, trigger, name).token)


def test_an_output_is_measured_as_it_is_kept(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    numbers = [1] * 30_000
    assert output_size(numbers) == 60_001 < len(json.dumps(numbers))
    assert report(play, me, lease(play, me), output=numbers).status == 200
    assert play.task("a", 0)["output"] == numbers


def test_a_forged_receipt_leaves_no_trace(play: Play) -> None:
    with_tasks(play, 1)
    me, thief = register(play), register(play, "thief")
    [task] = lease(play, me)
    assert report(play, me, [task], output={"good": 1}).status == 200
    before = play.task("a", 0)
    for attempt in (1, 7):
        forged = Shard(TaskState.RUNNING, attempt=attempt, worker=f"{thief['id']}.1", time=1)
        receipt = Receipt(1, "https://nowhere", "x", forged).encode()
        answer = report(
            play, thief, [{**task, "attempt": attempt}], receipt=receipt, output={"evil": 1}, stderr="mine"
        )
        assert answer.status == 409
    assert play.task("a", 0) == before


def test_the_same_result_twice_in_one_report(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    [task] = lease(play, me)
    answer = report(play, me, [task, task], output=[1])
    assert (answer.status, answer.json["items"][0]["status"]) == (200, "ok")


def test_a_deleted_group_does_not_hold_up_reports(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/gone", {})
    play.hands = Hands(play.mill, "gone", ["gone"])
    play.define({"stepName": "a", "sharding": 5, "maxTaskCount": 1}, workerGroup="gone")
    play.submit()
    held = play.take(1)
    play.mill.groups.delete("gone")  # and not its queues: moto cannot bear messages of a queue that is gone
    play.mill.recent_groups.discard("gone")
    assert [each.status for each in play.hands.report(held)] == ["ok"]
    play.tick(minutes=3)
    assert [each.status for each in play.hands.report(held)] == ["already"]
    assert play.job()["state"] == "FAILED"


def test_a_job_whose_start_failed_after_it_got_its_slot_starts_later(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.submit("one")
    play.cloud.run_until(lambda: play.job("one")["state"] == "QUEUED")
    for trigger in ("two", "three"):
        play.submit(trigger)
        play.cloud.run_until(lambda trigger=trigger: play.job(trigger)["state"] == "WAITING")
    one = play.mill.jobs.find("play", "one")
    assert one is not None

    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(concurrency, "start_roots", fails)
        with pytest.raises(ConnectionError):
            concurrency.release_slot(play.mill, one, play.hands.clock())
    play.tick(minutes=2)
    assert play.job("two")["state"] == "QUEUED"
    for trigger in ("one", "two", "three"):
        assert play.run(trigger=trigger)["state"] == "SUCCESS"


def test_a_newcomer_does_not_overtake_jobs_that_wait_for_a_slot(play: Play) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    for trigger in ("one", "two"):
        play.submit(trigger)
        play.cloud.run_until(lambda trigger=trigger: play.job(trigger)["state"] in ("QUEUED", "WAITING"))
    play.mill.slots.give_back("play", [play.job("one")["id"]])
    play.submit("three")
    play.cloud.run_until(lambda: play.job("three")["state"] == "WAITING")
    play.cloud.run_until(lambda: play.job("two")["state"] == "QUEUED")
    assert play.job("three")["state"] == "WAITING"


def test_messages_of_a_group_that_lived_for_a_while_are_moved(play: Play) -> None:
    for name in ("ga", "gb"):
        play.cloud.http("PUT", f"/v1/groups/{name}", {})
    ga = Hands(play.mill, "ga", ["ga"])
    clock = ga.clock
    play.define({"stepName": "a", "sharding": 12, "maxTaskCount": 4}, workerGroups=["ga", "gb"])
    play.submit()
    opened(play)
    minutes = 3

    def pass_time(hands: Hands) -> None:
        nonlocal minutes
        ahead = minutes * 60_000
        hands.clock = lambda: clock() + ahead
        hands.beat([])
        play.tick(minutes=minutes)
        minutes += 3

    pass_time(ga)
    gb = Hands(play.mill, "gb", ["gb"])
    gb.beat([])
    ga.report(ga.take(2))
    gb.beat([], offline=True)

    def work() -> None:
        pass_time(ga)
        ga.report(ga.take())

    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS", 40, meanwhile=work)


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_what_was_leased_reaches_the_worker_whatever_fails_then(play: Play, faults: Faults, nth: int) -> None:
    with_tasks(play, 70)
    messages = [message for _ in range(8) for message in play.hands.receive()]
    split = [message for message in messages if json.loads(message.body)[4] in (0, 1, 64)]
    assert len(split) == 3
    faults.fail("dynamodb", "UpdateItem", nth=nth, how="throttle")
    from shardmill.engine.groups.matching import Taker
    from shardmill.engine.tasks.lease import lease as lease_messages

    leases = lease_messages(play.mill, Taker.of(play.hands.worker), split, play.hands.clock())
    assert len(leases) >= 1
    running = [task["sharding"]["index"] for task in play.step_tasks("a") if task["state"] == "RUNNING"]
    assert sorted(each.sharding.index for each in leases) == running


def test_a_priority_that_changes_before_the_plan_holds(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play.define({"stepName": "a"})
    add, changed = play.mill.jobs.add_steps, []

    def change_first(job: Any, nodes: Any) -> bool:
        if not changed:
            changed.append(change.change(play.mill, job, {"priority": 10}, ME, play.hands.clock()))
        return add(job, nodes)

    monkeypatch.setattr(play.mill.jobs, "add_steps", change_first)
    play.submit()
    opened(play)
    assert (play.job()["priority"], play.row(0).priority) == (10, 10)
    assert play.run()["state"] == "SUCCESS"


def test_room_is_made_though_the_first_try_failed(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play.define({"stepName": "a", "sharding": 90})
    note, tries = play.mill.groups.note_giant, []

    def fails_once(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise ConnectionError
        note(*given)

    monkeypatch.setattr(play.mill.groups, "note_giant", fails_once)
    play.submit()
    opened(play)
    group = play.mill.groups.get("default")
    assert group is not None
    assert len(group.giants) == 1


def test_a_shrunk_window_grows_with_the_workers(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "LEAST_WINDOW", 8)
    play.define({"stepName": "a", "sharding": 60}, name="giant")
    play.define({"stepName": "a"}, name="small")
    for name in ("giant", "small"):
        play.submit(name=name)
        opened(play, name)
    assert play.row(0, name="giant").window == 8
    worker = registry.register(
        play.mill,
        registry.Registration(name="big", groups=["default"], slots=5),
        play.hands.clock() + 180_000,
    )
    assert worker.slots == 5
    play.tick(minutes=3)
    assert play.row(0, name="giant").window == 20
    assert play.run(name="giant", timeout=40)["state"] == "SUCCESS"


def test_a_worker_s_row_stays_small_whatever_its_tasks_tell(play: Play) -> None:
    with_tasks(play, 60)
    held = [each for _ in range(6) for each in play.hands.take()]
    words = TaskProgress(percent=1, message="\u6f22" * 200)
    work = [
        HeldTask(task_id=each.task_id, attempt=each.attempt, run=each.run, progress=words) for each in held
    ]
    worker = play.hands.worker
    beat_ = registry.heartbeat(
        play.mill, worker.id, worker.session, work, offline=False, now=play.hands.clock()
    )
    assert len(beat_.worker.work) == 60
    assert len(json.dumps(beat_.worker.progress)) <= registry.MOST_PROGRESS_BYTES


def test_a_rejected_task_goes_to_another_worker(play: Play) -> None:
    play.define({"stepName": "a"}, rejectInterval=0)
    play.submit()
    other = Hands(play.mill, "other")
    play.hands.report(play.take(1), "rejected")
    assert play.hands.take() == []
    again: list[Any] = []
    play.cloud.run_until(lambda: again, meanwhile=lambda: again.extend(other.take()))


def test_old_tasks_are_handed_back_by_a_new_message(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    [task] = lease(play, me)
    from shardmill.engine.tasks.interruption import hand_back
    from shardmill.model.worker import HandedBack

    back = HandedBack(task_id=task["taskId"], attempt=1, receipt=task["receipt"])
    assert hand_back(play.mill, me["id"], [back], play.hands.clock() + 55_000) == [task["taskId"]]
    later = play.hands.clock
    play.hands.clock = lambda: later() + 56_000
    assert [each.attempt for each in play.hands.take()] == [2]


def test_beats_end_what_is_followed_no_more(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    tasks = lease(play, me)
    play.cloud.http("GET", "/v1/jobs/play/t1/steps/a/tasks/0/logs")
    assert beat(play, me, tasks).json["followed"] == [tasks[0]["taskId"]]
    beat(play, me, [])
    row = play.mill.workers.get(me["id"])
    assert row is not None
    assert row.followed == set()


def test_a_result_that_contradicts_an_earlier_one_changes_nothing(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    [task] = lease(play, me)
    assert report(play, me, [task], stdout="done").status == 200
    before = play.task("a", 0)
    assert report(play, me, [task], outcome="failed", stderr="no, not done").status == 409
    assert play.task("a", 0) == before


def test_a_late_success_after_a_timeout_adds_what_it_printed_and_no_more(play: Play) -> None:
    with_tasks(play, 1, timeoutSeconds=5, failedRetries=0)
    [held] = play.take(1)
    clock = play.hands.clock
    play.hands.clock = lambda: clock() + 21_000
    assert play.hands.beat([held]) == [held.task_id]
    [late] = play.hands.report([held], stdout="at last")
    assert late.status == "stale-attempt"
    [attempt] = play.task("a", 0)["attempts"]
    assert (attempt["reason"], attempt["outcome"], attempt["stdout"]) == ("timed-out", None, "at last")
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    assert "longer than timeoutSeconds, 5" in play.job()["notes"]


def test_a_worker_does_not_hold_what_others_took_from_it(play: Play) -> None:
    with_tasks(play, 1)
    me = register(play)
    [task] = lease(play, me)
    other = Hands(play.mill, "other")
    clock = other.clock
    other.clock = lambda: clock() + 61_000
    receipt = Receipt.decode(task["receipt"])
    assert receipt is not None
    play.mill.queues.hide([(receipt.message, 0)])
    assert [each.attempt for each in other.take()] == [2]
    row = play.mill.workers.get(me["id"])
    assert row is not None
    assert row.work == set()


def test_void_messages_are_dropped_and_the_others_kept(play: Play) -> None:
    with_tasks(play, 3)
    old = play.hands.receive()
    assert play.mill.jobs.raise_generation(play.row(0)) is not None
    task_messages.send(play.mill, play.row(0), [1, 2], play.hands.clock())
    new = play.hands.receive()
    meant = drop_void(play.mill, [*old, *new], play.hands.clock())
    assert sorted(json.loads(message.body)[4] for message in meant) == [1, 2]
    assert meant == new
