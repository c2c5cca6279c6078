"""The cache of reference files: downloaded once, complete, kept while in use, limited in size."""

import errno
import hashlib
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.transfers import Fetch
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.safe_paths import TransferError


def a_file(data: bytes, **more: Any) -> Fetch:
    known = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return Fetch(name="db", kind="predata", url="http://h/k?s3cret", **(known | more))


def writes(data: bytes, log: list[bytes] | None = None) -> Callable[[BinaryIO], None]:
    def download(out: BinaryIO) -> None:
        if log is not None:
            log.append(data)
        out.write(data)

    return download


def never(_: BinaryIO) -> None:
    raise AssertionError("the file is already in the cache")


def entries(root: Path) -> set[bytes]:
    return {path.read_bytes() for path in root.iterdir() if not path.suffix}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_file_is_downloaded_once_and_is_read_only(root: Path, tmp_path: Path) -> None:
    cache, file = Cache(root, 100), a_file(b"hello")
    assert cache.get(file, tmp_path / "a", writes(b"hello")) == tmp_path / "a"
    Cache(root, 100).get(file, tmp_path / "b", never)
    for name in "ab":
        assert (tmp_path / name).read_bytes() == b"hello"
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o444
    assert (tmp_path / "a").samefile(tmp_path / "b")


def test_the_key_identifies_the_content() -> None:
    cache = Cache(Path("unused"), 100)
    strong = {"sha256": None, "etag": '"e"'}
    assert cache.key(a_file(b"x")) == hashlib.sha256(b"x").hexdigest()
    assert cache.key(a_file(b"x", **strong)) == cache.key(a_file(b"y", **strong, first=0))
    assert cache.key(a_file(b"x", **strong)) != cache.key(a_file(b"xy", **strong))
    assert cache.key(a_file(b"x", **strong)) != cache.key(a_file(b"x", **strong, plain=True))
    for unknown in (
        {"sha256": None},
        {"sha256": None, "etag": 'W/"e"'},
        {"sha256": None, "etag": "e", "size": None},
        {"first": 1},
        {"end": 1},
        {"size": 101},
    ):
        assert cache.key(a_file(b"x", **unknown)) is None


def test_a_file_without_a_key_cannot_be_cached(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no key to be cached under"):
        Cache(root, 100).get(a_file(b"x", sha256=None), tmp_path / "a", never)


@pytest.mark.parametrize("wrong", [b"hellO", b"hell"])
def test_wrong_content_is_not_cached(root: Path, tmp_path: Path, wrong: bytes) -> None:
    cache = Cache(root, 100)
    with pytest.raises(TransferError, match="predata 'db' is not cached"):
        cache.get(a_file(b"hello"), tmp_path / "a", writes(wrong))
    assert entries(root) == set()
    assert not (tmp_path / "a").exists()
    cache.get(a_file(b"hello"), tmp_path / "a", writes(b"hello"))
    assert (tmp_path / "a").read_bytes() == b"hello"


def test_a_failed_download_leaves_nothing_and_is_repeated(root: Path, tmp_path: Path) -> None:
    def broken(out: BinaryIO) -> None:
        out.write(b"he")
        raise TransferError("broke")

    cache = Cache(root, 100)
    with pytest.raises(TransferError, match="broke"):
        cache.get(a_file(b"hello"), tmp_path / "a", broken)
    assert [path for path in root.iterdir() if path.suffix != ".lock"] == []
    cache.get(a_file(b"hello"), tmp_path / "a", writes(b"hello"))
    assert (tmp_path / "a").read_bytes() == b"hello"


@pytest.mark.parametrize("left", ["{key}", "{key}.part"])
def test_an_entry_left_by_a_crash_is_not_used(root: Path, tmp_path: Path, left: str) -> None:
    file = a_file(b"hello")
    root.mkdir()
    (root / left.format(key=file.sha256)).write_bytes(b"he")
    Cache(root, 100).get(file, tmp_path / "a", writes(b"hello"))
    assert (tmp_path / "a").read_bytes() == b"hello"
    assert entries(root) == {b"hello"}


def test_an_entry_that_a_task_changed_is_downloaded_again(root: Path, tmp_path: Path) -> None:
    cache, file = Cache(root, 100), a_file(b"hello")
    cache.get(file, tmp_path / "a", writes(b"hello"))
    (tmp_path / "a").chmod(0o644)
    (tmp_path / "a").write_bytes(b"changed")
    cache.get(file, tmp_path / "b", writes(b"hello"))
    assert (tmp_path / "b").read_bytes() == b"hello"


def test_concurrent_tasks_share_one_download(root: Path, tmp_path: Path) -> None:
    cache, file, log = Cache(root, 100), a_file(b"hello"), []
    waiting = threading.Barrier(8)
    paused = threading.Event()

    def slow(out: BinaryIO) -> None:
        log.append(out)
        assert paused.wait(30)  # until another task waits for this download
        out.write(b"hello")

    def pause(seconds: float) -> None:
        paused.set()
        threading.Event().wait(seconds)

    def task(number: int) -> bytes:
        waiting.wait()
        return cache.get(file, tmp_path / str(number), slow, sleep=pause).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(task, range(8))) == [b"hello"] * 8
    assert len(log) == 1


def _get_in_process(root: Path, target: Path, log: Path) -> None:
    def download(out: BinaryIO) -> None:
        with log.open("a") as file:
            file.write("fetched\n")
        out.write(b"hello")

    Cache(root, 100).get(a_file(b"hello"), target, download)


def test_concurrent_processes_share_one_download(root: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [
        spawn.Process(target=_get_in_process, args=(root, tmp_path / str(number), log)) for number in range(3)
    ]
    for one in processes:
        one.start()
    for one in processes:
        one.join(60)
    assert [one.exitcode for one in processes] == [0, 0, 0]
    assert log.read_text() == "fetched\n"
    assert {(tmp_path / str(number)).read_bytes() for number in range(3)} == {b"hello"}


def test_waiting_for_another_download_can_be_interrupted(root: Path, tmp_path: Path) -> None:
    cache, file = Cache(root, 100), a_file(b"hello")

    def stopped(_: float) -> None:
        raise TransferError("discarded")

    def download(out: BinaryIO) -> None:
        with pytest.raises(TransferError, match="discarded"):
            cache.get(file, tmp_path / "b", never, sleep=stopped)
        out.write(b"hello")

    cache.get(file, tmp_path / "a", download)
    assert not (tmp_path / "b").exists()


def use(cache: Cache, folder: Path, data: bytes, *, keep: bool = False) -> None:
    """Read a file as a task does, and remove it unless `keep`."""
    path = cache.get(a_file(data), folder / f"task-{len(data)}-{data[:1].decode()}", writes(data))
    assert path.read_bytes() == data
    if not keep:
        path.unlink()


def test_the_least_recently_used_entry_is_removed_first(root: Path, tmp_path: Path) -> None:
    cache = Cache(root, 30, now_ns=count(1).__next__)
    for letter in b"abc":
        use(cache, tmp_path, bytes([letter]) * 10)
    use(cache, tmp_path, b"a" * 10)
    use(cache, tmp_path, b"d" * 10)
    assert entries(root) == {letter * 10 for letter in (b"a", b"c", b"d")}


def test_entries_in_use_are_kept(root: Path, tmp_path: Path) -> None:
    cache = Cache(root, 20)
    use(cache, tmp_path, b"a" * 10, keep=True)
    use(cache, tmp_path, b"b" * 10)
    use(cache, tmp_path, b"c" * 10)
    assert entries(root) == {b"a" * 10, b"c" * 10}


def test_entries_being_downloaded_are_kept(root: Path, tmp_path: Path) -> None:
    cache = Cache(root, 10)

    def download(out: BinaryIO) -> None:
        out.write(b"a" * 5)
        out.flush()
        cache.trim(100)
        out.write(b"a" * 5)

    cache.get(a_file(b"a" * 10), tmp_path / "a", download)
    assert (tmp_path / "a").read_bytes() == b"a" * 10


def test_a_task_keeps_its_file_when_the_folder_of_the_cache_is_removed(root: Path, tmp_path: Path) -> None:
    cache = Cache(root, 100)
    cache.get(a_file(b"hello"), tmp_path / "a", writes(b"hello"))
    for path in root.iterdir():
        path.unlink()
    assert (tmp_path / "a").read_bytes() == b"hello"
    cache.get(a_file(b"hello"), tmp_path / "b", writes(b"hello"))
    assert (tmp_path / "b").read_bytes() == b"hello"


@settings(max_examples=40)
@given(uses=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 15)), max_size=15))
def test_the_cache_holds_the_most_recently_used_entries_within_its_limit(uses: list[tuple[str, int]]) -> None:
    latest: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "cache")
        cache = Cache(root, 30, now_ns=count(1).__next__)
        for letter, size in uses:
            data = letter.encode() * size
            use(cache, Path(folder), data)
            if data in latest:
                latest.remove(data)
            else:
                while len(b"".join(latest)) + size > 30:
                    del latest[0]
            latest.append(data)
            assert entries(root) == set(latest)


def test_concurrent_tasks_read_correct_files_from_a_small_cache(root: Path, tmp_path: Path) -> None:
    """Entries are added and removed while the tasks read."""

    def task(number: int) -> bool:
        data = bytes([97 + number % 7]) * 10
        path = cache.get(a_file(data), tmp_path / str(number), writes(data))
        correct = path.read_bytes() == data
        path.unlink()
        return correct

    cache = Cache(root, 25)
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(task, range(120)))
    cache.trim()
    assert sum(len(data) for data in entries(root)) <= 25


def test_a_file_is_copied_if_it_cannot_be_linked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "other file system")

    monkeypatch.setattr(os, "link", link)
    cache = Cache(root, 100)
    path = cache.get(a_file(b"hello"), tmp_path / "a", writes(b"hello"))
    assert path.read_bytes() == b"hello"
    assert path.stat().st_nlink == 1
    assert path.stat().st_mode & 0o777 == 0o444
    cache.get(a_file(b"hello"), tmp_path / "a", never)
    assert path.read_bytes() == b"hello"


def test_other_link_errors_are_raised(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Cache(root, 100).get(a_file(b"hello"), tmp_path / "none/a", writes(b"hello"))
