"""The processes of functions share the unpacked files of a layer."""

import shutil
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardmill.local.function_processes import share_layers


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that uses `zipfile`, as MiniStack's does."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    module = SimpleNamespace(zipfile=zipfile)
    share_layers(module)
    return module


def archive(folder: Path, name: str, content: str) -> str:
    path = folder / name
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("python/package/__init__.py", content)
        written.writestr("../../outside.py", "")
    return str(path)


def unpacked(runtime: Any, path: str, folder: Path) -> Path:
    """Unpack as MiniStack does."""
    folder.mkdir()
    with runtime.zipfile.ZipFile(path) as opened:
        assert opened.namelist() == []
        opened.extractall(str(folder))
    return folder


def test_a_layer_is_unpacked_once_for_each_content(runtime: Any, tmp_path: Path) -> None:
    old = archive(tmp_path, "layer_0.zip", "old")
    first, second = (unpacked(runtime, old, tmp_path / name) for name in ("first", "second"))
    third = unpacked(runtime, archive(tmp_path, "layer_1.zip", "new"), tmp_path / "third")
    texts = [(folder / "python/package/__init__.py").read_text() for folder in (first, second, third)]
    assert texts == ["old", "old", "new"]
    assert first.resolve() == second.resolve() != third.resolve()
    assert len(list((tmp_path / "shared").iterdir())) == 2


def test_files_stay_within_the_folder_of_their_layer(runtime: Any, tmp_path: Path) -> None:
    folder = unpacked(runtime, archive(tmp_path, "layer_0.zip", "x"), tmp_path / "first")
    assert sorted(path.name for path in tmp_path.rglob("outside.py")) == ["outside.py"]
    assert (folder.resolve() / "outside.py").exists()


def test_a_process_that_ends_leaves_the_files_to_the_others(runtime: Any, tmp_path: Path) -> None:
    path = archive(tmp_path, "layer_0.zip", "x")
    (tmp_path / "process").mkdir()
    unpacked(runtime, path, tmp_path / "process" / "layer_0")
    other = unpacked(runtime, path, tmp_path / "other")
    shutil.rmtree(tmp_path / "process")
    assert (other / "python/package/__init__.py").read_text() == "x"


def test_processes_that_start_together_get_all_files(runtime: Any, tmp_path: Path) -> None:
    path = archive(tmp_path, "layer_0.zip", "x")
    folders = [tmp_path / f"process-{number}" for number in range(8)]
    threads = [threading.Thread(target=unpacked, args=(runtime, path, folder)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [(folder / "python/package/__init__.py").read_text() for folder in folders] == ["x"] * 8
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_other_archives_are_unpacked_as_before(runtime: Any, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    with runtime.zipfile.ZipFile(archive(tmp_path, "code.zip", "x")) as opened:
        assert "python/package/__init__.py" in opened.namelist()
        opened.extractall(folder)
    assert not folder.is_symlink()
    assert runtime.zipfile.BadZipFile is zipfile.BadZipFile


def test_the_next_run_does_not_use_what_is_being_removed(runtime: Any, tmp_path: Path) -> None:
    path = archive(tmp_path, "layer_0.zip", "x")
    left = unpacked(runtime, path, tmp_path / "first").resolve()
    restarted = SimpleNamespace(zipfile=zipfile)
    share_layers(restarted)
    again = unpacked(restarted, path, tmp_path / "second")
    shutil.rmtree(left)
    assert (again / "python/package/__init__.py").read_text() == "x"
