"""The checkpoint of a task, with real programs and a store in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from shardmill.model.transfers import MAX_CHECKPOINT_BYTES
from shardmill.model.worker import Lease, Result
from shardmill.worker.task import checkpoint
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.task_files import FileAccess
from shardmill.worker.transport.base import FileUrls, Refused
from support.fakes.leases import a_lease


class Store:
    """The checkpoints of one task; `failing` is raised by each call."""

    def __init__(self) -> None:
        self.saved: list[bytes] = []
        self.loads = 0
        self.failing: Exception | None = None

    def load_checkpoint(self, _: Lease) -> bytes | None:
        self.loads += 1
        if self.failing:
            raise self.failing
        return self.saved[-1] if self.saved else None

    def save_checkpoint(self, _: Lease, data: bytes) -> None:
        if self.failing:
            raise self.failing
        self.saved.append(data)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def run(tmp_path: Path, store: Store) -> Callable[..., Result]:
    runtime = Runtime(tmp_path / "work", kill_seconds=0.3, files=FileAccess(cast(FileUrls, store)))

    def run_task(content: str, **fields: Any) -> Result:
        return execute(a_lease(content=content, **fields), runtime, threading.Event())

    return run_task


def test_a_task_without_a_checkpoint_calls_nothing(store: Store, run: Any) -> None:
    assert run("exit 3").outcome == "failed"
    assert run("exit 0").outcome == "success"
    assert (store.loads, store.saved) == (0, [])


def test_a_failed_attempt_leaves_its_checkpoint_to_the_next(store: Store, run: Any) -> None:
    assert run('[ ! -e "$SHARDMILL_CHECKPOINT" ] && printf 42 > "$SHARDMILL_CHECKPOINT"; exit 3').reason == (
        "exit code 3"
    )
    assert store.saved == [b"42"]
    second = run('cat "$SHARDMILL_CHECKPOINT"; exit 4', attempt=2, retried=True)
    assert (second.stdout, second.reason) == ("42", "exit code 4")
    assert store.saved == [b"42"], "it did not change"


def test_a_success_saves_no_checkpoint_at_its_end(store: Store, run: Any) -> None:
    assert run('echo 1 > "$SHARDMILL_CHECKPOINT"').outcome == "success"
    assert store.saved == []


def test_a_checkpoint_is_saved_while_the_task_runs(
    store: Store, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SAVE_SECONDS", 0.5)
    run('printf 1 > "$SHARDMILL_CHECKPOINT"; sleep 2; printf 22 > "$SHARDMILL_CHECKPOINT"; sleep 2')
    assert store.saved == [b"1", b"22"]


def test_a_task_that_is_stopped_or_too_slow_leaves_its_checkpoint(store: Store, run: Any) -> None:
    result = run('printf 7 > "$SHARDMILL_CHECKPOINT"; sleep 60', timeout_seconds=1)
    assert result.reason == "timed-out"
    assert store.saved[-1] == b"7"


def test_a_checkpoint_that_is_too_large_is_named_in_the_reason(
    store: Store, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = run(f'head -c {MAX_CHECKPOINT_BYTES + 1} /dev/zero > "$SHARDMILL_CHECKPOINT"; exit 3')
    assert result.reason == (
        "exit code 3; its checkpoint was not saved: it has 65537 bytes, and the maximum is 65536"
    )
    assert store.saved == []
    assert [record.action for record in caplog.records if hasattr(record, "action")] == [
        "checkpoint-not-saved"
    ]
    late = f'head -c {MAX_CHECKPOINT_BYTES + 1} /dev/zero > "$SHARDMILL_CHECKPOINT"; sleep 60'
    result = run(late, timeout_seconds=1)
    assert result.reason == "timed-out"
    assert result.stderr.endswith("the maximum is 65536\n")


def test_the_largest_checkpoint_is_saved(store: Store, run: Any) -> None:
    run(f'head -c {MAX_CHECKPOINT_BYTES} /dev/zero > "$SHARDMILL_CHECKPOINT"; exit 3')
    assert store.saved == [bytes(MAX_CHECKPOINT_BYTES)]


@pytest.mark.parametrize("make", ['ln -s /etc/passwd "$F"', 'mkdir "$F"', 'mkfifo "$F"'])
def test_only_a_regular_file_is_saved(store: Store, run: Any, make: str) -> None:
    result = run(f'F="$SHARDMILL_CHECKPOINT"; {make}; exit 3')
    assert "its checkpoint was not saved" in result.reason
    assert store.saved == []


def test_an_attempt_whose_checkpoint_cannot_be_read_is_rejected(store: Store, run: Any) -> None:
    store.failing = Refused("no")
    result = run("exit 0", attempt=2, retried=True)
    assert (result.outcome, result.reason) == (
        "rejected",
        "the checkpoint of an earlier attempt cannot be read: no",
    )


def test_a_save_that_fails_does_not_change_the_outcome(store: Store, run: Any) -> None:
    store.failing = Refused("stale")
    result = run('echo 1 > "$SHARDMILL_CHECKPOINT"; exit 42')
    assert (result.outcome, result.reason) == (
        "failed-permanent",
        "exit code 42; its checkpoint was not saved: stale",
    )
