"""The log of a followed task: uploaded in pieces while the task runs, complete at the end."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.model.worker import Lease, Result
from shardmill.worker import logs
from shardmill.worker.logs import LogsNotStored, Part, Stream
from shardmill.worker.task import bounds, log_stream
from shardmill.worker.task.channel import LiveStatus
from shardmill.worker.task.execute import Runtime, execute
from support.fakes.leases import a_lease


class LogStore:
    """An in-memory log store that can be made unavailable."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], bytes] = {}
        self.unavailable = False
        self.calls = 0

    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        self.calls += 1
        for number, data in part:
            if self.unavailable:
                raise LogsNotStored("S3 is unavailable")
            assert data
            self.chunks[stream, number] = data

    def text(self, stream: str = "stdout") -> bytes:
        return b"".join(self.chunks[key] for key in sorted(self.chunks) if key[0] == stream)

    def count(self, stream: str = "stdout") -> int:
        return sum(name == stream for name, _ in self.chunks)


@pytest.fixture
def store() -> LogStore:
    return LogStore()


@pytest.fixture
def runtime(tmp_path: Path, store: LogStore, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(log_stream, "PIECE_SECONDS", 0.05)
    return Runtime(tmp_path / "work", logs=store, kill_seconds=0.3)


def run_with_script(
    runtime: Runtime, content: str, live: LiveStatus, script: Callable[[Path], None]
) -> Result:
    """Run a task and, in a thread, a script; the script creates the files that the task waits for."""
    go = runtime.root.parent
    failed: list[BaseException] = []

    def run_script() -> None:
        try:
            script(go)
        except BaseException as error:
            failed.append(error)
            (go / "end").touch()

    wait = f"wait_for() {{ until [ -e {go}/$1 ] || [ -e {go}/end ]; do sleep 0.02; done; }}\n"
    thread = threading.Thread(target=run_script)
    thread.start()
    result = execute(a_lease(content=wait + content), runtime, threading.Event(), live=live)
    thread.join()
    if failed:
        raise failed[0]
    return result


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_followed_log_is_stored_while_the_task_runs(runtime: Runtime, store: LogStore) -> None:
    def script(go: Path) -> None:
        until(lambda: store.text() == b"one\n")
        (go / "a").touch()
        until(lambda: store.text() == b"one\ntwo\n")
        (go / "b").touch()

    result = run_with_script(
        runtime, "echo one; wait_for a; echo two; wait_for b; echo three", LiveStatus(followed=True), script
    )
    assert (store.text(), result.stdout) == (b"one\ntwo\nthree\n", "one\ntwo\nthree\n")
    assert store.count() >= 2
    assert store.count("stderr") == 0


def test_following_can_start_late_and_stop_early(runtime: Runtime, store: LogStore) -> None:
    live = LiveStatus()

    def script(go: Path) -> None:
        live.followed = True
        until(lambda: store.text() == b"one\n")
        live.followed = False
        (go / "a").touch()

    result = run_with_script(runtime, "echo one; wait_for a; echo two", live, script)
    assert store.text() == b"one\ntwo\n"
    assert result.outcome == "success"


def test_a_log_that_is_not_followed_is_not_uploaded(runtime: Runtime, store: LogStore) -> None:
    result = run_with_script(runtime, "echo one; sleep 0.2; echo two", LiveStatus(), lambda _: None)
    assert (store.calls, result.stdout) == (0, "one\ntwo\n")


def test_after_the_first_upload_whole_chunks_are_uploaded_without_a_follower(
    runtime: Runtime, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    live = LiveStatus(followed=True)

    def script(go: Path) -> None:
        until(lambda: store.text() == b"one\n")
        live.followed = False
        (go / "a").touch()
        until(lambda: len(store.text()) == 3004)
        (go / "b").touch()

    content = "echo one; wait_for a; head -c 3500 /dev/zero | tr '\\0' a; wait_for b"
    run_with_script(runtime, content, live, script)
    assert store.text() == b"one\n" + b"a" * 3500
    assert max(len(data) for data in store.chunks.values()) == 1000


def test_a_failed_upload_of_a_log_is_retried_later(runtime: Runtime, store: LogStore) -> None:
    store.unavailable = True

    def script(go: Path) -> None:
        until(lambda: store.calls >= 2)
        store.unavailable = False
        until(lambda: store.text() == b"one\n")
        (go / "a").touch()

    run_with_script(
        runtime, "echo one; wait_for a; echo two; echo err >&2", LiveStatus(followed=True), script
    )
    assert (store.text(), store.text("stderr")) == (b"one\ntwo\n", b"")


def test_at_most_a_thousand_chunks_of_a_log_are_stored(
    runtime: Runtime, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 10)
    execute(a_lease(content="head -c 20000 /dev/zero | tr '\\0' a"), runtime, threading.Event())
    assert (store.count(), len(store.text())) == (1000, 10_000)


def test_after_many_pieces_only_whole_chunks_are_stored_until_the_end(
    runtime: Runtime, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_PIECES", 1)

    def script(go: Path) -> None:
        until(lambda: store.text() == b"one\n")
        (go / "a").touch()
        time.sleep(0.3)
        assert store.text() == b"one\n"
        (go / "b").touch()

    run_with_script(runtime, "echo one; wait_for a; echo two; wait_for b", LiveStatus(followed=True), script)
    assert store.text() == b"one\ntwo\n"


def test_a_task_without_a_log_store_can_be_followed(runtime: Runtime) -> None:
    result = execute(
        a_lease(content="echo a"),
        replace(runtime, logs=None),
        threading.Event(),
        live=LiveStatus(followed=True),
    )
    assert result.stdout == "a\n"
