"""Long polling of lanes: their order, and the release of surplus messages."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest

from shardmill.aws.queues import Message, Queues
from shardmill.worker.transport.lanes import SETTLE_SECONDS, Lane, Lanes

HIGH, NORMAL, LOW = (Lane(url, level, 30) for level, url in enumerate(("high", "normal", "low")))


class FakeQueues:
    """In-memory queues with the long polling of SQS."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[str, list[Message]] = {"high": [], "normal": [], "low": []}
        self.in_flight: dict[str, int] = dict.fromkeys(self.messages, 0)
        self.most_in_flight = 0
        self.receives: list[tuple[str, int]] = []
        self.released: list[str] = []
        self.broken: set[str] = set()
        self.closed = False

    def send(self, url: str, *names: str) -> None:
        with self.changed:
            self.messages[url] += [Message(url, f"handle-{name}", "", name) for name in names]
            self.changed.notify_all()

    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[Message]:
        with self.changed:
            self.receives.append((url, most))
            if url in self.broken:
                raise ConnectionError(f"{url} is broken")
            self.in_flight[url] += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight[url])
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.closed or self.messages[url], wait)
            self.in_flight[url] -= 1
            found, self.messages[url] = self.messages[url][:most], self.messages[url][most:]
            return found

    def hide(self, pairs: Iterable[tuple[Message, int]]) -> None:
        with self.changed:
            for message, seconds in pairs:
                assert seconds == 0
                self.released.append(message.id)
                self.messages[message.queue].append(message)
            self.changed.notify_all()

    def await_polls(self, *urls: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: all(self.in_flight[url] for url in urls), 5)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


@pytest.fixture
def queues() -> FakeQueues:
    return FakeQueues()


@pytest.fixture
def lanes(queues: FakeQueues) -> Iterator[Lanes]:
    lanes_ = Lanes(cast(Queues, queues))
    lanes_.serve([HIGH, NORMAL, LOW])
    yield lanes_
    lanes_.close()
    queues.close()
    lanes_.join(5)


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages]


def in_background(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call in a thread; return a function that waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()

    def result() -> Any:
        thread.join(5)
        return results[0]

    return result


def test_lanes_are_polled_only_while_receiving(queues: FakeQueues, lanes: Lanes) -> None:
    time.sleep(SETTLE_SECONDS)
    assert queues.receives == []


def test_an_idle_worker_waits_on_every_lane_at_once(queues: FakeQueues, lanes: Lanes) -> None:
    receive = in_background(lambda: lanes.receive(4, 20))
    queues.await_polls("high", "normal", "low")
    queues.send("low", "l1")
    assert ids(receive()) == ["l1"]
    assert queues.most_in_flight == 1


def test_receive_returns_nothing_after_the_wait_time(lanes: Lanes) -> None:
    assert lanes.receive(4, 1) == []


def test_higher_lanes_are_received_first(queues: FakeQueues, lanes: Lanes) -> None:
    queues.send("low", "l1")
    queues.send("normal", "n1", "n2")
    queues.send("high", "h1")
    assert [ids(lanes.receive(1, 5)) for _ in range(4)] == [["h1"], ["n1"], ["n2"], ["l1"]]


def test_a_lower_lane_is_not_polled_while_a_higher_one_has_messages(queues: FakeQueues, lanes: Lanes) -> None:
    queues.send("normal", *map(str, range(50)))
    queues.send("low", "l1")
    for _ in range(5):
        assert len(lanes.receive(10, 5)) == 10
    assert "low" not in dict(queues.receives)
    assert queues.released == []


def test_no_more_messages_are_requested_than_there_is_room_for(queues: FakeQueues, lanes: Lanes) -> None:
    queues.send("high", *map(str, range(5)))
    assert len(lanes.receive(3, 5)) == 3
    assert queues.receives[0] == ("high", 3)


def test_messages_that_arrive_later_are_released_at_once(queues: FakeQueues, lanes: Lanes) -> None:
    receive = in_background(lambda: lanes.receive(1, 20))
    queues.await_polls("high", "normal", "low")
    queues.send("normal", "n1")
    assert ids(receive()) == ["n1"]
    queues.send("low", "l1")
    queues.send("high", "h1")
    with queues.changed:
        assert queues.changed.wait_for(lambda: sorted(queues.released) == ["h1", "l1"], 5)
    assert [ids(lanes.receive(1, 5)) for _ in range(2)] == [["h1"], ["l1"]]


def test_surplus_messages_are_released_at_once(queues: FakeQueues, lanes: Lanes) -> None:
    receive = in_background(lambda: lanes.receive(5, 20))
    queues.await_polls("high", "normal", "low")
    queues.send("high", "h1")
    assert ids(receive()) == ["h1"]
    receive = in_background(lambda: lanes.receive(2, 20))
    queues.await_polls("high", "normal", "low")
    queues.send("low", "l1", "l2", "l3", "l4")
    assert ids(receive()) == ["l1", "l2"]
    assert queues.released == ["l3", "l4"]


def test_a_lane_is_not_polled_for_a_moment_after_messages_for_others_were_received(
    queues: FakeQueues, lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.worker.transport.lanes.GIVE_WAY_SECONDS", 3600)
    queues.send("high", "for-others")
    lanes.give_way(lanes.receive(1, 5))
    assert queues.released == ["for-others"]
    queues.receives.clear()
    queues.send("low", "l1")
    assert ids(lanes.receive(1, 5)) == ["l1"]  # and a lower lane does not wait for the paused one
    assert "high" not in dict(queues.receives)


def test_a_lane_is_polled_again_after_the_pause_for_other_workers(
    queues: FakeQueues, lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.worker.transport.lanes.GIVE_WAY_SECONDS", 0.1)
    queues.send("high", "for-others")
    lanes.give_way(lanes.receive(1, 5))
    assert ids(lanes.receive(1, 20)) == ["for-others"]


def test_closing_ends_a_receive_and_releases_later_messages(queues: FakeQueues, lanes: Lanes) -> None:
    receive = in_background(lambda: lanes.receive(1, 20))
    queues.await_polls("high", "normal", "low")
    lanes.close()
    assert receive() == []
    queues.send("normal", "n1")
    with queues.changed:
        assert queues.changed.wait_for(lambda: queues.released == ["n1"], 5)


def test_a_broken_lane_does_not_stop_the_others(queues: FakeQueues, lanes: Lanes) -> None:
    queues.broken = {"high"}
    queues.send("normal", "n1")
    assert ids(lanes.receive(1, 5)) == ["n1"]


def test_receive_raises_if_all_lanes_fail_and_can_be_retried(queues: FakeQueues, lanes: Lanes) -> None:
    queues.broken = {"high", "normal", "low"}
    with pytest.raises(ConnectionError):
        lanes.receive(1, 5)
    queues.broken = set()
    queues.send("low", "l1")
    assert ids(lanes.receive(1, 5)) == ["l1"]


def test_lanes_can_be_added_and_removed(queues: FakeQueues, lanes: Lanes) -> None:
    lanes.serve([NORMAL])
    receive = in_background(lambda: lanes.receive(1, 5))
    queues.await_polls("normal")
    assert dict(queues.receives) == {"normal": 1}
    queues.send("normal", "n1")
    assert ids(receive()) == ["n1"]
    lanes.serve([LOW, NORMAL])
    queues.send("low", "l1")
    assert ids(lanes.receive(1, 5)) == ["l1"]
