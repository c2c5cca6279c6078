"""The journal: written when `append` returns, read up to the last complete record, refused if corrupt."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.local.journal import Journal, Record, encoded
from shardmill.local.saved_state import CorruptState

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@contextlib.contextmanager
def started(folder: Path, *on_error: Callable[[OSError], Any]) -> Iterator[Journal]:
    journal = Journal(folder, *on_error)
    journal.start()
    yield journal
    with contextlib.suppress(OSError):
        journal.close()


def write(folder: Path, *batches: list[Record]) -> None:
    """Write each batch to a file of its own."""
    with started(folder) as journal:
        for number, batch in enumerate(batches):
            if number:
                journal.begin_file()
            for record in batch:
                journal.append(record)


def read(folder: Path) -> list[Record]:
    return list(Journal(folder).records())


def test_records_are_read_in_order_over_all_files(tmp_path: Path) -> None:
    write(tmp_path, *([["item", number]] for number in range(12)))
    assert len(list(tmp_path.iterdir())) == 12
    write(tmp_path, [["item", 12]])
    assert read(tmp_path) == [["item", number] for number in range(13)]


def test_an_empty_journal_has_no_file(tmp_path: Path) -> None:
    write(tmp_path / "journal", [])
    assert read(tmp_path / "journal") == []
    assert list((tmp_path / "journal").iterdir()) == []


@given(st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=5))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    folder = tmp_path_factory.mktemp("journal")
    (folder / "1.journal").write_bytes(b"".join(encoded(record) for record in records))
    assert read(folder) == records


@given(records=st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=4), data=st.data())
def test_a_file_cut_anywhere_has_the_records_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], data: st.DataObject
) -> None:
    lines = [encoded(record) for record in records]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole) - 1))
    folder = tmp_path_factory.mktemp("journal")
    (folder / "1.journal").write_bytes(whole[:cut])
    complete = sum(1 for number in range(len(lines)) if len(b"".join(lines[: number + 1])) <= cut)
    assert read(folder) == records[:complete]
    write(folder, [["later"]])
    assert read(folder) == [*records[:complete], ["later"]]


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "another byte": lambda line: line.replace(b"first", b"f1rst"),
    "no checksum": lambda line: line[9:],
    "another text": lambda line: b"\x00" * (len(line) - 1) + b"\n",
}


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_a_corrupt_record_before_a_good_one_is_refused(tmp_path: Path, how: str) -> None:
    lines = [encoded(["first"]), encoded(["second"])]
    file = tmp_path / "1.journal"
    file.write_bytes(CORRUPTIONS[how](lines[0]) + lines[1])
    with pytest.raises(CorruptState, match=f"{file}.*line 1"):
        read(tmp_path)


def test_an_unknown_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.journal").touch()
    with pytest.raises(CorruptState, match=r"x\.journal"):
        Journal(tmp_path)


def test_files_before_a_snapshot_are_removed(tmp_path: Path) -> None:
    with started(tmp_path) as journal:
        journal.append(["in the snapshot"])
        since = journal.begin_file()
        journal.append(["after it"])
        journal.remove_before(since)
    assert read(tmp_path) == [["after it"]]


def test_a_record_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    with started(tmp_path) as journal:
        for number in range(3):
            journal.append([number])
            assert read(tmp_path)[-1] == [number]


def test_records_of_many_threads_are_whole(tmp_path: Path) -> None:
    with started(tmp_path) as journal, ThreadPoolExecutor(8) as threads:
        for number in range(500):
            threads.submit(journal.append, ["x" * number])
    assert sorted(len(record[0]) for record in read(tmp_path)) == list(range(500))


def test_synced_returns_after_a_sync_of_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[Record]] = []

    async def run(journal: Journal) -> None:
        await journal.synced()
        assert synced == [], "nothing was written"
        for number in range(5):
            journal.append([number])
            await journal.synced()
            assert synced[-1][-1] == [number]
        await asyncio.gather(*(one(journal, number) for number in range(100)))
        assert len(synced) < 20, "those that wait together share a sync"
        journal.begin_file()
        journal.append(["in the next file"])
        await journal.synced()
        assert synced[-1][-1] == ["in the next file"]

    async def one(journal: Journal, number: int) -> None:
        journal.append(["together", number])
        await journal.synced()
        assert ["together", number] in synced[-1]

    monkeypatch.setattr(os, "fsync", lambda _: synced.append(read(tmp_path)))
    with started(tmp_path) as journal:
        asyncio.run(run(journal))


def test_nothing_is_recorded_before_the_start(tmp_path: Path) -> None:
    """Applying the records changes the services, which must not record that again."""
    Journal(tmp_path).append(["applied"])
    assert list(tmp_path.iterdir()) == []


def fails(*_: Any) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["write", "open"])
def test_a_record_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    errors: list[OSError] = []
    with started(tmp_path, errors.append) as journal:
        journal.append(["good"])
        journal.begin_file()
        monkeypatch.setattr(os, call, fails)
        journal.append(["lost"])
        monkeypatch.undo()
    assert [error.errno for error in errors] == [28]
    assert read(tmp_path) == [["good"]]


def test_a_sync_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Exited(Exception):
        """Replaces the exit of the process."""

    def exits(error: OSError) -> NoReturn:
        raise Exited(error.errno)

    with started(tmp_path, exits) as journal:
        journal.append(["lost"])
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(Exited, match="28"):
            asyncio.run(journal.synced())
        monkeypatch.undo()


def test_a_process_that_cannot_write_exits(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from shardmill.local.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1])); journal.start()\n"
        "def fails(*_): raise OSError(28, 'No space left on device')\n"
        "os.fsync = fails; journal.append(['lost']); print('accepted')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=50)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the journal cannot be written (No space left on device)" in done.stderr
