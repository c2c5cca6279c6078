"""The desk of a worker: what it takes, what it lets go, and what it counts."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from shardmill.model.worker import Lease
from shardmill.worker import heartbeat, inflight
from shardmill.worker.heartbeat import Pulse
from shardmill.worker.inflight import Desk, Held
from shardmill.worker.task.execute import unrun
from support.fakes.leases import a_lease


def leases(count: int, first: int = 0) -> list[Lease]:
    return [a_lease(rank=rank) for rank in range(first, first + count)]


def end(table: Desk, held: Held) -> None:
    table.end(held, unrun(held.lease, "no"))
    table.reported(table.take_results())


def begin(table: Desk) -> Held:
    held = table.next()
    assert held
    return held


def test_what_is_passed_on_does_not_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Desk(slots=1, most_tasks=3)
    table.accept(leases(3))
    first = begin(table)
    monkeypatch.setattr(inflight, "PATIENCE_SECONDS", -1.0)
    assert len(table.overdue()) == 2
    end(table, first)
    assert table.await_room() == 2
    table.accept(leases(2, first=3))
    for _ in range(2):
        end(table, begin(table))
    assert table.await_room() == 0


@pytest.mark.parametrize("how", ["pause", "drain"])
def test_a_resting_desk_has_no_room_until_it_rests_no_more(how: str) -> None:
    table = Desk(slots=2)
    rest = getattr(table, how)
    assert rest(True)
    assert not rest(True)
    assert table.accept(leases(1)) == []
    with ThreadPoolExecutor(1) as pool:
        room = pool.submit(table.await_room)
        assert not room.done()
        assert rest(False)
        assert room.result(10) == 2


def test_only_a_drained_desk_that_is_empty_is_drained() -> None:
    table = Desk(slots=2)
    assert not table.drained
    [held] = table.accept(leases(1))
    table.drain(True)
    assert not table.drained
    assert begin(table) is held
    end(table, held)
    assert table.drained


def test_it_says_when_it_fills_and_when_it_empties() -> None:
    turns: list[bool] = []
    table = Desk(slots=2, on_turn=lambda: turns.append(True))
    table.accept(leases(2))
    table.accept(leases(1, first=2))
    assert len(turns) == 1
    end(table, begin(table))
    assert len(turns) == 1
    end(table, begin(table))
    end(table, begin(table))
    assert len(turns) == 2
    assert not table.holding


def test_it_counts() -> None:
    table = Desk(slots=2)
    table.accept(leases(3))
    end(table, begin(table))
    begin(table)
    found = table.figures()
    assert (found["tasks_leased_total"], found["tasks_held"], found["tasks_running"]) == (3, 2, 1)
    assert found["tasks_ended_total"] == {"failed": 1}
    assert [held.lease.sharding.index for held in table.running()] == [1]
    earlier = found["busy_seconds_total"]
    later = table.figures()["busy_seconds_total"]
    assert isinstance(earlier, float)
    assert isinstance(later, float)
    assert 0 < earlier < later


def test_a_beat_is_due_early_only_where_there_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EXTRA_SECONDS", 0.0)
    over = Event()
    beats = Pulse(over)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(beats.await_next, 600, lambda: False)
        beats.turned()
        assert not _done_soon(waiting)
        beats.ask()
        assert waiting.result(10)
        beats.beaten(busy=False)
        waiting = pool.submit(beats.await_next, 600, lambda: True)
        beats.turned()
        assert waiting.result(10)
        beats.beaten(busy=True)
        waiting = pool.submit(beats.await_next, 600, lambda: True)
        over.set()
        beats.turned()
        assert waiting.result(10) is False


def test_a_flood_of_news_does_not_hold_up_the_regular_beat() -> None:
    beats = Pulse(Event())
    done = Event()

    def flood() -> None:
        while not done.is_set():
            beats.turned()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(flood)
        assert beats.await_next(0.3, lambda: False)
        done.set()


def _done_soon(waiting: Future[bool]) -> bool:
    try:
        waiting.result(0.5)
    except TimeoutError:
        return False
    return True
