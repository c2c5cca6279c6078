"""The emulator's state on disk: replaced atomically, and rejected if it is corrupt."""

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.core import persistence
from ministack.core.responses import AccountRegionScopedDict, AccountScopedDict

from shardmill.local.saved_state import FORMAT, CorruptState, StateFiles, unfinished_folder

CODE = b"a function's code"
DIGEST = hashlib.sha256(CODE).hexdigest()


class Service:
    """The part of a MiniStack service that saves and restores state."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def get_state(self) -> Any:
        return self.state

    def load_persisted_state(self, data: Any) -> None:
        self.state = data["store"]


class Functions(Service):
    """Stores code in files, and deletes unreferenced files in `get_state`, as the Lambda service does."""

    def __init__(self, blobs: Path) -> None:
        super().__init__()
        self.CODE_BLOB_DIR = str(blobs)
        self.check: Callable[[], bool] = lambda: True
        self.checks: list[bool] = []
        self._read_code_blob: Callable[[str], bytes | None] = lambda _digest: None

    def _prune_orphan_code_blobs(self, _referenced: set[str]) -> None:
        self.checks.append(self.check())

    def get_state(self) -> Any:
        self._prune_orphan_code_blobs({DIGEST})
        return {"store": DIGEST}

    def load_persisted_state(self, data: Any) -> None:
        self.state = self._read_code_blob(data["store"])


class Emulator:
    def __init__(self, folder: Path) -> None:
        self.functions = Functions(folder / "lambda-blobs")
        self.table, self.queues = Service(), Service()
        modules = {"dynamodb": self.table, "lambda_svc": self.functions, "sqs": self.queues}
        self.app = SimpleNamespace(
            _state_map={"dynamodb": "dynamodb", "lambda": "lambda_svc", "sqs": "sqs"},
            _get_module=modules.__getitem__,
        )
        self.saved = StateFiles(self.app, folder)

    def save(self, text: str) -> None:
        self.table.state = {"store": text}
        self.queues.state = {"store": text}
        self.saved.write()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    blobs = tmp_path / "state" / "lambda-blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{DIGEST}.zip").write_bytes(CODE)
    return tmp_path / "state"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_loading_without_files_loads_nothing(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.saved.load()
    assert emulator.table.state is None


def test_saved_state_is_restored(folder: Path) -> None:
    regions, accounts = AccountRegionScopedDict(), AccountScopedDict()
    regions["a table"] = {"items": {"é": {"": {"S": "\ud83c"}}}, 1: [b"\xff", None, 0.5]}
    accounts[("a", 1)] = regions
    emulator = Emulator(folder)
    emulator.save("x")
    emulator.table.state = {"store": accounts}
    emulator.saved.write()
    restored = Emulator(folder)
    restored.saved.load()
    assert isinstance(restored.table.state, AccountScopedDict)
    assert restored.table.state[("a", 1)]["a table"]["items"] == {"é": {"": {"S": "\ud83c"}}}
    assert restored.table.state[("a", 1)]["a table"]["1"] == [b"\xff", None, 0.5]
    assert restored.functions.state == CODE


def test_ministack_can_read_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Emulator(folder).save("x")
    monkeypatch.setattr(persistence, "PERSIST_STATE", True)
    monkeypatch.setattr(persistence, "STATE_DIR", str(folder))
    assert persistence.load_state("dynamodb") == {"store": "x"}


def test_a_killed_save_leaves_the_previous_one(folder: Path) -> None:
    """The process is killed at the last service, after the others are written."""
    emulator = Emulator(folder)
    emulator.save("good")
    before = contents(folder)

    def kill_process() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    emulator.queues.get_state = kill_process  # type: ignore[method-assign]
    emulator.table.state = {"store": "newer"}
    if (writer := os.fork()) == 0:
        try:
            emulator.saved.write()
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(writer, 0)[1]) == signal.SIGKILL
    assert (unfinished_folder(folder) / "dynamodb.json").exists()
    assert contents(folder) == before
    restored = Emulator(folder)
    restored.saved.load()
    assert (restored.table.state, restored.queues.state) == ("good", "good")
    restored.save("newest")
    assert not unfinished_folder(folder).exists()


def test_a_service_that_was_not_loaded_is_not_overwritten(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.save("good")
    before = contents(folder)
    emulator.table.state = None
    with pytest.raises(RuntimeError, match="dynamodb"):
        emulator.saved.write()
    assert contents(folder) == before


def test_unreferenced_code_is_deleted_after_the_save(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.functions.check = lambda: (
        (folder / "lambda.json").exists() and not unfinished_folder(folder).exists()
    )
    emulator.save("x")
    assert emulator.functions.checks == [True]


CORRUPTIONS: dict[str, Callable[[str], str]] = {
    "emptied": lambda text: "",
    "cut in half": lambda text: text[: len(text) // 2],
    "another document": lambda text: "[]",
    "an empty document": lambda text: "{}",
    "no state in it": lambda text: json.dumps({FORMAT: 1, "payload": []}),
    "another state": lambda text: json.dumps({FORMAT: 1, "payload": {"other": 1}}),
    "newer": lambda text: json.dumps({FORMAT: 1000, "payload": {"store": 1}}),
}


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_a_corrupt_file_is_reported_and_not_changed(folder: Path, how: str) -> None:
    Emulator(folder).save("x")
    file = folder / "dynamodb.json"
    file.write_text(CORRUPTIONS[how](file.read_text()))
    before = contents(folder)
    with pytest.raises(CorruptState, match=str(file)):
        Emulator(folder).saved.load()
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["dynamodb.json", f"lambda-blobs/{DIGEST}.zip"])
def test_a_missing_file_is_reported(folder: Path, name: str) -> None:
    Emulator(folder).save("x")
    (folder / name).unlink()
    with pytest.raises(CorruptState, match=f"{folder / name}.*No such file"):
        Emulator(folder).saved.load()


def test_corrupt_code_is_reported(folder: Path) -> None:
    Emulator(folder).save("x")
    (folder / "lambda-blobs" / f"{DIGEST}.zip").write_bytes(CODE[:5])
    with pytest.raises(CorruptState, match=f"{DIGEST}.zip"):
        Emulator(folder).saved.load()
