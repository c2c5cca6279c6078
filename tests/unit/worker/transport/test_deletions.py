"""Messages are deleted in a thread; nobody waits for it until the worker stops."""

from __future__ import annotations

import threading
from typing import Any

from shardmill.aws.queues import Message
from shardmill.worker.transport import deletions
from shardmill.worker.transport.deletions import DeferredDeletes
from support.waits import run_until


class Client:
    """The part of an SQS client that deletes messages, after `allow`."""

    def __init__(self) -> None:
        self.allow = threading.Semaphore(0)
        self.calls: list[list[str]] = []
        self.error: Exception | None = None
        self.called = threading.Event()

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:
        self.called.set()
        self.allow.acquire()
        self.calls.append([entry["ReceiptHandle"] for entry in Entries])
        if self.error:
            raise self.error
        return {}


def messages(*handles: str) -> list[Message]:
    return [Message("q", handle, "") for handle in handles]


def queues(client: Client) -> DeferredDeletes:
    return DeferredDeletes(client, "dead")  # type: ignore[arg-type]


def test_deletions_are_deferred_and_share_calls() -> None:
    client = Client()
    deferred = queues(client)
    deferred.delete(messages("a"))
    assert client.called.wait(10)
    for handle in "bcd":
        deferred.delete(messages(handle))
    assert not deferred.finish(0)
    client.allow.release(2)
    assert deferred.finish(10)
    assert client.calls == [["a"], ["b", "c", "d"]]


def test_there_is_nothing_to_finish_without_deletions() -> None:
    assert queues(Client()).finish(0)


def test_an_error_does_not_end_the_deletions() -> None:
    client = Client()
    client.error = ValueError("a defect")
    client.allow.release(2)
    deferred = queues(client)
    deferred.delete(messages("a"))
    assert deferred.finish(10)
    client.error = None
    deferred.delete(messages("b"))
    assert deferred.finish(10)
    assert client.calls == [["a"], ["b"]]


def test_too_many_pending_deletions_are_waited_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(deletions, "MAX_PENDING", 2)
    client = Client()
    deferred = queues(client)
    for handle in "abc":
        deferred.delete(messages(handle))
    waiting = threading.Thread(target=deferred.delete, args=(messages("d"),), daemon=True)
    waiting.start()
    client.allow.release(10)
    waiting.join(10)
    assert not waiting.is_alive()
    assert deferred.finish(10)
    assert sorted(handle for call in client.calls for handle in call) == ["a", "b", "c", "d"]


def test_the_thread_ends_when_it_is_idle(monkeypatch: Any) -> None:
    monkeypatch.setattr(deletions, "_IDLE_SECONDS", 0.01)
    client = Client()
    client.allow.release(2)
    deferred = queues(client)
    for handle in "ab":
        deferred.delete(messages(handle))
        assert deferred.finish(10)
        run_until(lambda: deferred._thread is None)
    assert client.calls == [["a"], ["b"]]
