"""The log of a task that is followed: uploaded in pieces, complete in the end."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.model.worker import Lease, Result
from shardmill.worker import logs
from shardmill.worker.logs import LogsNotStored, Part, Stream
from shardmill.worker.task import limits, log_stream
from shardmill.worker.task.channel import LiveStatus
from shardmill.worker.task.execute import Runtime, execute
from support.fakes.leases import a_lease


class Kept:
    """A log store in memory, which can be away."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], bytes] = {}
        self.away = False
        self.calls = 0

    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        self.calls += 1
        for number, data in part:
            if self.away:
                raise LogsNotStored("S3 is away")
            assert data
            self.chunks[stream, number] = data

    def text(self, stream: str = "stdout") -> bytes:
        return b"".join(self.chunks[key] for key in sorted(self.chunks) if key[0] == stream)

    def count(self, stream: str = "stdout") -> int:
        return sum(name == stream for name, _ in self.chunks)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def runtime(tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(limits, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(log_stream, "PIECE_SECONDS", 0.05)
    return Runtime(tmp_path / "work", logs=kept, kill_seconds=0.3)


def play(runtime: Runtime, content: str, live: LiveStatus, script: Callable[[Path], None]) -> Result:
    """Run a task, and the script beside it, which tells the task to go on by making files."""
    go = runtime.root.parent
    failed: list[BaseException] = []

    def act() -> None:
        try:
            script(go)
        except BaseException as error:
            failed.append(error)
            (go / "end").touch()

    wait = f"wait_for() {{ until [ -e {go}/$1 ] || [ -e {go}/end ]; do sleep 0.02; done; }}\n"
    thread = threading.Thread(target=act)
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


def test_a_followed_log_is_stored_while_the_task_runs(runtime: Runtime, kept: Kept) -> None:
    def script(go: Path) -> None:
        until(lambda: kept.text() == b"one\n")
        (go / "a").touch()
        until(lambda: kept.text() == b"one\ntwo\n")
        (go / "b").touch()

    result = play(
        runtime, "echo one; wait_for a; echo two; wait_for b; echo three", LiveStatus(followed=True), script
    )
    assert (kept.text(), result.stdout) == (b"one\ntwo\nthree\n", "one\ntwo\nthree\n")
    assert kept.count() >= 2
    assert kept.count("stderr") == 0


def test_following_may_begin_late_and_end_early(runtime: Runtime, kept: Kept) -> None:
    live = LiveStatus()

    def script(go: Path) -> None:
        live.followed = True
        until(lambda: kept.text() == b"one\n")
        live.followed = False
        (go / "a").touch()

    result = play(runtime, "echo one; wait_for a; echo two", live, script)
    assert kept.text() == b"one\ntwo\n"
    assert result.outcome == "success"


def test_a_log_that_is_not_followed_is_not_uploaded(runtime: Runtime, kept: Kept) -> None:
    result = play(runtime, "echo one; sleep 0.2; echo two", LiveStatus(), lambda _: None)
    assert (kept.calls, result.stdout) == (0, "one\ntwo\n")


def test_once_begun_whole_chunks_go_without_a_follower(
    runtime: Runtime, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    live = LiveStatus(followed=True)

    def script(go: Path) -> None:
        until(lambda: kept.text() == b"one\n")
        live.followed = False
        (go / "a").touch()
        until(lambda: len(kept.text()) == 3004)
        (go / "b").touch()

    content = "echo one; wait_for a; head -c 3500 /dev/zero | tr '\\0' a; wait_for b"
    play(runtime, content, live, script)
    assert kept.text() == b"one\n" + b"a" * 3500
    assert max(len(data) for data in kept.chunks.values()) == 1000


def test_a_failed_upload_of_a_log_is_retried_later(runtime: Runtime, kept: Kept) -> None:
    kept.away = True

    def script(go: Path) -> None:
        until(lambda: kept.calls >= 2)
        kept.away = False
        until(lambda: kept.text() == b"one\n")
        (go / "a").touch()

    play(runtime, "echo one; wait_for a; echo two; echo err >&2", LiveStatus(followed=True), script)
    assert (kept.text(), kept.text("stderr")) == (b"one\ntwo\n", b"")


def test_of_an_endless_log_so_many_chunks_are_kept(
    runtime: Runtime, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 10)
    execute(a_lease(content="head -c 20000 /dev/zero | tr '\\0' a"), runtime, threading.Event())
    assert (kept.count(), len(kept.text())) == (1000, 10_000)


def test_after_many_pieces_only_whole_chunks_are_stored_until_the_end(
    runtime: Runtime, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_PIECES", 1)

    def script(go: Path) -> None:
        until(lambda: kept.text() == b"one\n")
        (go / "a").touch()
        time.sleep(0.3)
        assert kept.text() == b"one\n"
        (go / "b").touch()

    play(runtime, "echo one; wait_for a; echo two; wait_for b", LiveStatus(followed=True), script)
    assert kept.text() == b"one\ntwo\n"


def test_a_task_without_a_store_can_be_followed(runtime: Runtime) -> None:
    result = execute(
        a_lease(content="echo a"),
        replace(runtime, logs=None),
        threading.Event(),
        live=LiveStatus(followed=True),
    )
    assert result.stdout == "a\n"
