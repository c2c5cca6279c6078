"""The emulator's state on disk: whole or not at all, and refused rather than taken for nothing."""

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

from shardmill.local.saved_state import FORMAT, Saved, Spoilt, fresh_of

CODE = b"a function's code"
DIGEST = hashlib.sha256(CODE).hexdigest()


class Service:
    """A service of MiniStack, as far as saving goes."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def get_state(self) -> Any:
        return self.state

    def load_persisted_state(self, data: Any) -> None:
        self.state = data["store"]


class Functions(Service):
    """Lambda: its code is in files of its own, which it removes while it is asked for its state."""

    def __init__(self, blobs: Path) -> None:
        super().__init__()
        self.CODE_BLOB_DIR = str(blobs)
        self.check: Callable[[], bool] = lambda: True
        self.was_right: list[bool] = []
        self._read_code_blob: Callable[[str], bytes | None] = lambda _digest: None

    def _prune_orphan_code_blobs(self, _referenced: set[str]) -> None:
        self.was_right.append(self.check())

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
        self.saved = Saved(self.app, folder)

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


def test_without_files_there_is_nothing_to_load(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.saved.load()
    assert emulator.table.state is None


def test_what_is_saved_comes_back_as_it_was(folder: Path) -> None:
    regions, accounts = AccountRegionScopedDict(), AccountScopedDict()
    regions["a table"] = {"items": {"é": {"": {"S": "\ud83c"}}}, 1: [b"\xff", None, 0.5]}
    accounts[("a", 1)] = regions
    emulator = Emulator(folder)
    emulator.save("x")
    emulator.table.state = {"store": accounts}
    emulator.saved.write()
    again = Emulator(folder)
    again.saved.load()
    assert isinstance(again.table.state, AccountScopedDict)
    assert again.table.state[("a", 1)]["a table"]["items"] == {"é": {"": {"S": "\ud83c"}}}
    assert again.table.state[("a", 1)]["a table"]["1"] == [b"\xff", None, 0.5]
    assert again.functions.state == CODE


def test_ministack_itself_can_read_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Emulator(folder).save("x")
    monkeypatch.setattr(persistence, "PERSIST_STATE", True)
    monkeypatch.setattr(persistence, "STATE_DIR", str(folder))
    assert persistence.load_state("dynamodb") == {"store": "x"}


def test_a_save_that_is_killed_leaves_the_one_before(folder: Path) -> None:
    """Killed at the last service, when the others are written already."""
    emulator = Emulator(folder)
    emulator.save("good")
    before = contents(folder)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    emulator.queues.get_state = die  # type: ignore[method-assign]
    emulator.table.state = {"store": "newer"}
    if (writer := os.fork()) == 0:
        try:
            emulator.saved.write()
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(writer, 0)[1]) == signal.SIGKILL
    assert (fresh_of(folder) / "dynamodb.json").exists()
    assert contents(folder) == before
    again = Emulator(folder)
    again.saved.load()
    assert (again.table.state, again.queues.state) == ("good", "good")
    again.save("newest")
    assert not fresh_of(folder).exists()


def test_a_service_that_could_not_be_loaded_is_not_written_over(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.save("good")
    before = contents(folder)
    emulator.table.state = None
    with pytest.raises(RuntimeError, match="dynamodb"):
        emulator.saved.write()
    assert contents(folder) == before


def test_code_stays_until_no_file_names_it(folder: Path) -> None:
    emulator = Emulator(folder)
    emulator.functions.check = lambda: (folder / "lambda.json").exists() and not fresh_of(folder).exists()
    emulator.save("x")
    assert emulator.functions.was_right == [True]


SPOILT: dict[str, Callable[[str], str]] = {
    "emptied": lambda text: "",
    "cut in half": lambda text: text[: len(text) // 2],
    "another document": lambda text: "[]",
    "an empty document": lambda text: "{}",
    "no state in it": lambda text: json.dumps({FORMAT: 1, "payload": []}),
    "another state": lambda text: json.dumps({FORMAT: 1, "payload": {"other": 1}}),
    "newer": lambda text: json.dumps({FORMAT: 1000, "payload": {"store": 1}}),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_file_is_named_and_left_as_it_is(folder: Path, how: str) -> None:
    Emulator(folder).save("x")
    file = folder / "dynamodb.json"
    file.write_text(SPOILT[how](file.read_text()))
    before = contents(folder)
    with pytest.raises(Spoilt, match=str(file)):
        Emulator(folder).saved.load()
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["dynamodb.json", f"lambda-blobs/{DIGEST}.zip"])
def test_a_file_that_is_missing_among_others_is_named(folder: Path, name: str) -> None:
    Emulator(folder).save("x")
    (folder / name).unlink()
    with pytest.raises(Spoilt, match=f"{folder / name}.*No such file"):
        Emulator(folder).saved.load()


def test_spoilt_code_is_named(folder: Path) -> None:
    Emulator(folder).save("x")
    (folder / "lambda-blobs" / f"{DIGEST}.zip").write_bytes(CODE[:5])
    with pytest.raises(Spoilt, match=f"{DIGEST}.zip"):
        Emulator(folder).saved.load()
