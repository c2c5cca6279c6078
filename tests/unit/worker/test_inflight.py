"""The tasks that a worker holds, and when its heartbeats are due."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from shardmill.model.worker import Lease
from shardmill.worker import heartbeat, inflight
from shardmill.worker.heartbeat import HeartbeatTimer
from shardmill.worker.inflight import InflightTask, InflightTasks
from support.fakes.leases import a_lease, failed_result


def leases(count: int, first: int = 0) -> list[Lease]:
    return [a_lease(rank=rank) for rank in range(first, first + count)]


def end(tasks: InflightTasks, task: InflightTask) -> None:
    tasks.finish(task, failed_result(task.lease, "no"))
    tasks.reported(tasks.take_results())


def begin(tasks: InflightTasks) -> InflightTask:
    task = tasks.next()
    assert task
    return task


def test_tasks_that_are_handed_back_do_not_count_towards_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = InflightTasks(slots=1, max_tasks=3)
    tasks.accept(leases(3))
    first = begin(tasks)
    monkeypatch.setattr(inflight, "MAX_SLOT_WAIT_SECONDS", -1.0)
    assert len(tasks.take_overdue()) == 2
    end(tasks, first)
    assert tasks.wait_for_room() == 2
    tasks.accept(leases(2, first=3))
    for _ in range(2):
        end(tasks, begin(tasks))
    assert tasks.wait_for_room() == 0


@pytest.mark.parametrize("how", ["suspend", "drain"])
def test_a_suspended_or_draining_worker_has_no_room_until_it_is_resumed(how: str) -> None:
    tasks = InflightTasks(slots=2)
    pause = getattr(tasks, how)
    assert pause(True)
    assert not pause(True)
    assert tasks.accept(leases(1)) == []
    with ThreadPoolExecutor(1) as pool:
        room = pool.submit(tasks.wait_for_room)
        assert not room.done()
        assert pause(False)
        assert room.result(10) == 2


def test_a_draining_worker_is_drained_when_it_holds_no_tasks() -> None:
    tasks = InflightTasks(slots=2)
    assert not tasks.drained
    [held] = tasks.accept(leases(1))
    tasks.drain(True)
    assert not tasks.drained
    assert begin(tasks) is held
    end(tasks, held)
    assert tasks.drained


def test_a_change_is_signalled_when_the_worker_becomes_busy_and_when_it_becomes_idle() -> None:
    changes: list[bool] = []
    tasks = InflightTasks(slots=2, on_change=lambda: changes.append(True))
    tasks.accept(leases(2))
    tasks.accept(leases(1, first=2))
    assert len(changes) == 1
    end(tasks, begin(tasks))
    assert len(changes) == 1
    end(tasks, begin(tasks))
    end(tasks, begin(tasks))
    assert len(changes) == 2
    assert not tasks.holds_tasks


def test_the_figures_count_leased_held_running_and_ended_tasks() -> None:
    tasks = InflightTasks(slots=2)
    tasks.accept(leases(3))
    end(tasks, begin(tasks))
    begin(tasks)
    found = tasks.figures()
    assert (found["tasks_leased_total"], found["tasks_held"], found["tasks_running"]) == (3, 2, 1)
    assert found["tasks_ended_total"] == {"failed": 1}
    assert [held.lease.sharding.index for held in tasks.running()] == [1]
    earlier = found["busy_seconds_total"]
    later = tasks.figures()["busy_seconds_total"]
    assert isinstance(earlier, float)
    assert isinstance(later, float)
    assert 0 < earlier < later


def test_a_heartbeat_is_due_early_only_after_a_change_or_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EXTRA_SECONDS", 0.0)
    over = Event()
    timer = HeartbeatTimer(over)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(timer.wait, 600, lambda: False)
        timer.changed()
        assert not _done_soon(waiting)
        timer.request()
        assert waiting.result(10)
        timer.sent(busy=False)
        waiting = pool.submit(timer.wait, 600, lambda: True)
        timer.changed()
        assert waiting.result(10)
        timer.sent(busy=True)
        waiting = pool.submit(timer.wait, 600, lambda: True)
        over.set()
        timer.changed()
        assert waiting.result(10) is False


def test_many_changes_do_not_delay_the_regular_heartbeat() -> None:
    timer = HeartbeatTimer(Event())
    done = Event()

    def flood() -> None:
        while not done.is_set():
            timer.changed()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(flood)
        assert timer.wait(0.3, lambda: False)
        done.set()


def _done_soon(waiting: Future[bool]) -> bool:
    try:
        waiting.result(0.5)
    except TimeoutError:
        return False
    return True
