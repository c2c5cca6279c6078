"""Leases and reports under fire: repeats, rivals, losses, and messages that lie."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from shardmill.engine.tasks.interruption import hand_back
from shardmill.model.worker import HandedBack
from support.faults import Faults
from support.hands import Hands
from support.play import Play


def one_task(play: Play, **step: object) -> None:
    play.define({"stepName": "a", **step})
    play.submit()


def test_a_repeated_report_is_already_known_and_changes_nothing(play: Play) -> None:
    one_task(play)
    held = play.take(1)
    assert [item.status for item in play.hands.report(held)] == ["ok"]
    assert [item.status for item in play.hands.report(held)] == ["already"]
    assert [item.status for item in play.hands.report(held, "failed", stderr="no!")] == ["stale-attempt"]
    task = play.task("a", 0)
    assert (task["state"], task["reason"], task["stderr"]) == ("SUCCESS", None, None)
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")


def test_a_late_report_of_a_lost_worker_is_stale(play: Play) -> None:
    one_task(play)
    [first] = play.take(1)
    other = Hands(play.mill, "other")
    late = play.hands.clock() + 61_000
    other.clock = lambda: late
    play.mill.queues.hide([(_message(play, first.receipt), 0)])
    [second] = other.take()
    assert (first.attempt, second.attempt) == (1, 2)
    assert [item.status for item in play.hands.report([first], stdout="I was first")] == ["stale-attempt"]
    assert play.task("a", 0)["state"] == "RUNNING"
    assert [item.status for item in other.report([second])] == ["ok"]
    task = play.task("a", 0)
    assert (task["state"], task["failed"], task["attempt"]) == ("SUCCESS", 0, 2)
    reasons = {attempt["attempt"]: attempt["reason"] for attempt in task["attempts"]}
    assert reasons == {1: "lost", 2: None}
    assert task["attempts"][0]["stdout"] == "I was first"


def _message(play: Play, receipt: str):  # type: ignore[no-untyped-def]
    from shardmill.aws.queues import Message
    from shardmill.engine.tasks.work_item import Receipt

    given = Receipt.decode(receipt)
    assert given is not None
    return Message(given.queue, given.handle, "")


def test_a_stale_report_over_http_says_so(play: Play) -> None:
    one_task(play)
    [held] = play.take(1)
    stale = {"taskId": held.task_id, "attempt": 7, "outcome": "success"}
    answer = play.cloud.http(
        "POST", "/v1/work:report", {"workerId": play.hands.worker.id, "results": [stale]}
    )
    assert answer.status == 409
    assert answer.json["code"] == "stale-attempt"
    assert answer.json["items"][0]["status"] == "stale-attempt"


def test_a_report_without_a_receipt_counts(play: Play) -> None:
    one_task(play)
    [held] = play.take(1)
    result = {"taskId": held.task_id, "attempt": 1, "outcome": "success"}
    answer = play.cloud.http(
        "POST", "/v1/work:report", {"workerId": play.hands.worker.id, "results": [result]}
    )
    assert (answer.status, answer.json["items"][0]["status"]) == (200, "ok")
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")


def test_another_worker_cannot_report_my_task(play: Play) -> None:
    one_task(play)
    held = play.take(1)
    thief = Hands(play.mill, "thief")
    assert [item.status for item in thief.report(held, stderr="mine now")] == ["foreign-attempt"]
    assert play.task("a", 0)["state"] == "RUNNING"
    assert play.task("a", 0)["stderr"] is None


def test_a_live_lease_is_not_taken_however_often_its_message_comes(play: Play, faults: Faults) -> None:
    faults.unruly_queues(duplicates=0.9)
    play.define({"stepName": "a", "sharding": 40})
    play.submit()
    job = play.run()
    assert job["steps"][0]["counts"] == {"SUCCESS": 40}
    assert sorted(lease.sharding.index for lease in play.leased) == list(range(40))
    assert {lease.attempt for lease in play.leased} == {1}


def test_a_holder_that_beats_keeps_its_task_beyond_the_lease(play: Play) -> None:
    one_task(play)
    held = play.take(1)
    play.mill.queues.hide([(_message(play, held[0].receipt), 0)])
    play.later(61)
    play.hands.beat(held)
    rival = Hands(play.mill, "rival")
    rival.clock = play.hands.clock
    assert rival.take() == []
    assert [item.status for item in play.hands.report(held)] == ["ok"]


def test_a_holder_that_lives_but_does_not_claim_the_task_has_lost_it(play: Play) -> None:
    """The answer to its lease never reached it: it beats on, without the task."""
    one_task(play)
    [held] = play.take(1)
    play.mill.queues.hide([(_message(play, held.receipt), 0)])
    play.later(61)
    play.hands.beat([])
    [again] = play.hands.take()
    assert (again.task_id, again.attempt) == (held.task_id, 2)


def test_a_restarted_worker_does_not_keep_the_leases_of_its_former_life(play: Play) -> None:
    one_task(play)
    [held] = play.take(1)
    play.mill.queues.hide([(_message(play, held.receipt), 0)])
    reborn = Hands(play.mill, "hands")
    assert reborn.worker.id == play.hands.worker.id
    assert reborn.worker.session == play.hands.worker.session + 1
    later = play.hands.clock() + 61_000
    reborn.clock = lambda: later
    [again] = reborn.take()
    assert again.attempt == 2
    assert reborn.beat([held]) == [held.task_id]


def test_failures_are_retried_after_their_interval_and_then_final(play: Play) -> None:
    one_task(play, failedRetries=1, failedInterval=30)
    held = play.take(1)
    assert (
        play.hands.report(held, "failed", exit_code=3, reason="exit code 3", stderr="boom")[0].state
        == "READY"
    )
    assert play.task("a", 0)["failed"] == 1
    assert play.hands.take() == []
    play.mill.queues.hide([(_message(play, held[0].receipt), 0)])
    assert play.hands.take() == []
    play.later(31)
    play.mill.queues.hide([(_message(play, held[0].receipt), 0)])
    again = play.cloud.run_until(play.hands.take)
    assert [lease.attempt for lease in again] == [2]
    play.hands.report(again, "failed", exit_code=4, reason="exit code 4")
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    task = play.task("a", 0)
    assert (task["state"], task["failed"], task["exitCode"]) == ("FAILED", 2, 4)
    assert [(a["attempt"], a["exitCode"]) for a in task["attempts"]] == [(1, 3), (2, 4)]
    assert "exit code 4" in play.job()["notes"]


def test_lost_tasks_are_bounded(play: Play) -> None:
    one_task(play, lostRetries=1)
    [held] = play.take(1)
    for minutes, expected in ((2, 2), (4, None)):
        play.later(60 * minutes)
        queue = _message(play, held.receipt).queue
        play.cloud.clients.sqs.send_message(QueueUrl=queue, MessageBody=_ticket(play))
        taken = play.hands.take()
        assert [lease.attempt for lease in taken] == ([expected] if expected else [])
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    task = play.task("a", 0)
    assert (task["state"], task["failed"]) == ("FAILED", 0)
    assert [attempt["reason"] for attempt in task["attempts"]] == ["lost", "lost"]


def _ticket(play: Play, gen: int | None = None, rank: int = 0) -> str:
    from shardmill.aws.queues import Ticket

    step = play.row(0)
    return Ticket(step.job_id, step.run, step.index, gen or step.gen, rank).encode()


@pytest.mark.parametrize("body", ["nonsense", "[]", '["x",1,2,3,"4"]', "{}", '["x",1,2,3]', "null", "7"])
def test_unreadable_messages_go_to_the_dead_letter_queue(play: Play, body: str) -> None:
    group = play.mill.groups.get("default")
    assert group is not None
    play.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=body)
    assert play.hands.take() == []
    dead = play.cloud.clients.sqs.receive_message(QueueUrl=play.cloud.environment["SHARDMILL_DEAD_QUEUE"])
    assert [message["Body"] for message in dead["Messages"]] == [body]
    assert play.mill.queues.empty(group.queues[1])


def test_messages_of_an_older_generation_or_a_strange_step_die_quietly(play: Play) -> None:
    one_task(play)
    held = play.take(1)
    queue = _message(play, held[0].receipt).queue
    strange = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    for body in (_ticket(play, gen=99), _ticket(play, rank=5), strange):
        play.cloud.clients.sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert play.hands.take() == []
    play.hands.report(held)
    assert play.mill.queues.empty(queue)
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")


def test_a_task_handed_back_runs_elsewhere_at_once_and_counts_as_nothing(play: Play) -> None:
    one_task(play)
    [held] = play.take(1)
    given = HandedBack(task_id=held.task_id, attempt=held.attempt, receipt=held.receipt)
    assert hand_back(play.mill, "somebody", [given], play.hands.clock()) == []
    assert hand_back(play.mill, play.hands.worker.id, [given], play.hands.clock()) == [held.task_id]
    other = Hands(play.mill, "other")
    [again] = other.take()
    assert again.attempt == 2
    assert [item.status for item in play.hands.report([held])] == ["stale-attempt"]
    other.report([again])
    task = play.task("a", 0)
    assert (task["state"], task["failed"]) == ("SUCCESS", 0)


def test_many_workers_never_hold_one_task_together(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 100})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).state == "READY")
    crowd = [Hands(play.mill, f"worker-{n}") for n in range(6)]

    def work(hands: Hands) -> list[str]:
        mine: list[str] = []
        idle = 0
        while idle < 5:
            leases = hands.take()
            idle = 0 if leases else idle + 1
            mine += [lease.task_id for lease in leases]
            hands.report(leases)
        return mine

    with ThreadPoolExecutor(6) as pool:
        taken = [task for tasks in pool.map(work, crowd) for task in tasks]
    assert len(taken) == len(set(taken)) == 100
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS")
