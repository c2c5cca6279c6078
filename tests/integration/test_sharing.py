"""Priorities, fairness and concurrency: who gets the next free slot."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine.running import concurrency
from shardmill.engine.tasks import fair_share
from shardmill.engine.tasks import window as task_window
from shardmill.model.blocks import Block, Shard, block_count, block_size
from shardmill.model.states import StepState, TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import StepRow
from support.faults import Faults, How
from support.hands import Hands
from support.lambda_server import FunctionError
from support.play import Play


def opened(play: Play, name: str = "play", trigger: str = "t1") -> None:
    play.cloud.run_until(lambda: play.job(trigger, name)["steps"] and play.row(0, trigger, name).token)


def test_a_job_of_high_priority_gets_the_next_free_slot(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 60}, name="many", priority=1)
    play.define({"stepName": "a"}, name="urgent", priority=10)
    play.submit(name="many")
    opened(play, "many")
    play.submit(name="urgent")
    opened(play, "urgent")
    assert [held.job_name for held in play.hands.take(1)][:1] == ["urgent"]


def test_the_priority_of_a_queued_job_can_change(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 30}, {"stepName": "b", "dependentStep": "a"})
    play.submit("first")
    opened(play, trigger="first")
    play.submit("second")
    opened(play, trigger="second")
    answer = play.cloud.http("POST", "/v1/jobs/play/second:priority", {"priority": 12})
    assert (answer.status, answer.json["priority"]) == (200, 12)
    assert [step["priority"] for step in play.job("second")["steps"]] == [12, 12]
    first_ten = play.take(10)
    assert {held.trigger for held in first_ten} == {"second"}
    play.hands.report(first_ten)
    for trigger in ("second", "first"):
        assert play.run(trigger=trigger)["state"] == "SUCCESS"
    taken = Counter((held.trigger, held.step_name, held.sharding.index) for held in play.leased)
    assert set(taken.values()) == {1}
    ended = play.cloud.http("POST", "/v1/jobs/play/second:priority", {"priority": 1})
    assert (ended.status, ended.json["code"]) == (409, "job-ended")
    wrong = play.cloud.http("POST", "/v1/jobs/play/second:priority", {"priority": "high"})
    assert (wrong.status, wrong.json["faults"][0]["pointer"]) == (422, "/priority")


def test_a_priority_whose_messages_are_not_all_sent_is_made_good(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a", "sharding": 25})
    play.submit()
    opened(play)
    faults.fail("sqs", "SendMessageBatch", nth=2, how="throttle")
    play.cloud.http("POST", "/v1/jobs/play/t1:priority", {"priority": 12})
    assert play.row(0).resend
    play.tick(minutes=2)
    assert play.run()["state"] == "SUCCESS"


def drain_until(play: Play, name: str) -> int:
    """Work until a job has ended; how many tasks of others were taken meanwhile."""
    others = 0

    def work() -> None:
        nonlocal others
        leases = play.hands.take()
        play.hands.report(leases)
        others += sum(held.job_name != name for held in leases)

    play.cloud.run_until(lambda: play.job(name=name)["state"] == "SUCCESS", 60, meanwhile=work)
    return others


@pytest.fixture
def least_window(monkeypatch: pytest.MonkeyPatch) -> int:
    """As if 8 tasks were many: moto is too slow for thousands."""
    monkeypatch.setattr(fair_share, "LEAST_WINDOW", 8)
    return 8


def test_a_small_job_does_not_wait_for_a_giant_one(
    play: Play, least_window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play.mill.recent_steps, "_keep_ms", -1)  # or the old messages are good for 2 s more
    play.define({"stepName": "a", "sharding": 120}, name="giant")
    play.define({"stepName": "a", "sharding": 10}, name="small")
    play.submit(name="giant")
    opened(play, "giant")
    play.hands.report(play.take(20))
    play.submit(name="small")
    opened(play, "small")
    waited_for = drain_until(play, "small")
    assert waited_for <= 2 * least_window
    assert play.row(0, name="giant").window == least_window
    assert play.run(name="giant", timeout=50)["steps"][0]["counts"] == {"SUCCESS": 120}
    group = play.mill.groups.get("default")
    assert group is not None
    assert group.giants == set()


@pytest.mark.usefixtures("least_window")
def test_two_giants_share_a_group(play: Play) -> None:
    for name in ("one", "two"):
        play.define({"stepName": "a", "sharding": 120}, name=name)
        play.submit(name=name)
        opened(play, name)
    taken: list[Lease] = []

    def work() -> None:
        leases = play.hands.take(4)
        play.hands.report(leases)
        taken.extend(leases)

    play.cloud.run_until(lambda: not play.row(0, name="one").resend, 30, meanwhile=lambda: play.hands.take(1))
    play.cloud.run_until(lambda: len(taken) >= 60, 50, meanwhile=work)
    shares = Counter(held.job_name for held in taken[:60])
    assert min(shares["one"], shares["two"]) >= 15


def test_max_task_count_holds_while_jobs_share(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 200, "maxTaskCount": 3}, name="giant")
    play.define({"stepName": "a", "sharding": 2}, name="small")
    for name in ("giant", "small"):
        play.submit(name=name)
        opened(play, name)
    held = [each for _ in range(5) for each in play.hands.take()]
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


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_step_sends_exactly_what_has_its_turn(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 400))
    window = data.draw(st.integers(1, total))
    ended = data.draw(st.sets(st.integers(0, total - 1)))
    if data.draw(st.booleans()):  # mostly in order, as in life
        ended = set(range(data.draw(st.integers(0, total)))) | {rank for rank in ended if rank % 7 == 0}
    step, blocks = a_step(total, window, ended)
    lines = [[rank for rank in range(line, total, window) if rank not in ended] for line in range(window)]
    assert list(task_window.open_ranks(step, blocks)) == sorted(line[0] for line in lines if line)


# concurrency


def states(play: Play, name: str = "play") -> list[str]:
    listed = play.cloud.http("GET", f"/v1/jobs?jobName={name}").json["items"]
    return [job["state"] for job in reversed(listed)]


def test_no_more_jobs_of_a_definition_run_than_its_concurrency(play: Play) -> None:
    play.define({"stepName": "a"}, concurrency=2)
    for number in range(5):
        play.submit(f"t{number}")
    play.cloud.run_until(lambda: states(play).count("WAITING") == 3)
    assert "2 Jobs of play" in play.job("t4")["waitingFor"][0]
    most = 0

    def work() -> None:
        nonlocal most
        held = play.hands.take()
        most = max(most, len(held))
        play.hands.report(held)

    play.cloud.run_until(lambda: states(play) == ["SUCCESS"] * 5, 60, meanwhile=work)
    assert most <= 2
    play.cloud.run_until(lambda: play.mill.slots.holders("play") == set())
    assert play.mill.slots.waiting("play", limit=10) == []


@pytest.mark.parametrize("how", ["throttle", "crash"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_slot_is_not_lost_whatever_call_fails_when_a_job_ends(
    play: Play, faults: Faults, nth: int, how: How
) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.submit("one")
    play.cloud.run_until(lambda: states(play) == ["QUEUED"])
    play.submit("two")
    play.cloud.run_until(lambda: states(play) == ["QUEUED", "WAITING"])
    held = play.take(1)
    fault = faults.fail("dynamodb", nth=nth, how=how, when=lambda call: "SLOTS#play" in str(call.params))
    play.hands.report(held)
    minutes = count(2, 2)

    def work() -> None:
        with suppress(FunctionError):  # a tick that dies
            play.tick(next(minutes))
        play.hands.work()

    play.cloud.run_until(lambda: states(play) == ["SUCCESS", "SUCCESS"], 50, meanwhile=work)
    play.cloud.run_until(lambda: play.mill.slots.holders("play") == set(), meanwhile=work)
    assert fault.hits == 1


def test_the_tick_takes_slots_from_jobs_that_are_over(play: Play) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.mill.slots.take("play", "00000000-0000-4000-8000-000000000000", most=1)
    play.submit("one")
    play.cloud.run_until(lambda: states(play) == ["WAITING"])
    play.tick(minutes=2)
    assert play.run(trigger="one")["state"] == "SUCCESS"


def test_a_job_that_ends_between_the_try_and_the_note_starts_the_waiting_one(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.define({"stepName": "a"}, concurrency=1)
    play.submit("one")
    play.cloud.run_until(lambda: states(play) == ["QUEUED"])
    note = play.mill.slots.wait
    ended: list[Any] = []

    def meanwhile(job_name: str, jid: int, job_id: str) -> None:
        holder = play.mill.jobs.find("play", "one")
        assert holder is not None
        concurrency.release_slot(play.mill, holder, play.hands.clock())
        ended.append(holder)
        note(job_name, jid, job_id)

    monkeypatch.setattr(play.mill.slots, "wait", meanwhile)
    play.submit("two")
    play.cloud.run_until(lambda: ended and states(play)[1] == "QUEUED")


def test_hands_of_another_group_are_not_asked(play: Play) -> None:
    """A giant in one group does not shrink for a job of another."""
    play.cloud.http("PUT", "/v1/groups/other", {})
    Hands(play.mill, "other", ["other"])
    play.define({"stepName": "a", "sharding": 200}, name="giant")
    play.define({"stepName": "a"}, name="small", workerGroup="other")
    for name in ("giant", "small"):
        play.submit(name=name)
        opened(play, name)
    assert play.row(0, name="giant").window == 200
