"""Snapshots of the emulator's state are atomic and never replace a later save."""

import asyncio
import copy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shardmill.local import snapshot
from shardmill.local.snapshot import Snapshots
from support.processes import child_process

linux = pytest.mark.skipif(not snapshot.FORKS, reason="snapshots are forked on Linux only")

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from shardmill.local import snapshot

file = Path(sys.argv[1])
memory = {"n": 0}

class Store:
    def write(self):
        time.sleep(float(sys.argv[2]))
        fresh = file.with_suffix(".tmp")
        fresh.write_text(str(memory["n"]))
        fresh.replace(file)

    def drop_unfinished(self):
        file.with_suffix(".tmp").unlink(missing_ok=True)

class Changes:
    number = 0

    def begin_file(self):
        self.number += 1
        return self.number

    def remove_before(self, number):
        assert number <= self.number

snapshot.INTERVAL_SECONDS = 0.05
snapshots = snapshot.Snapshots(Store(), Changes())

async def run():
    snapshots.start(asyncio.get_running_loop())
    for n in range(1, 6):
        memory["n"] = n
        await asyncio.sleep(0.1)
    seen = file.read_text() if file.exists() else "nothing"
    memory["n"] = "last"
    snapshots.finish(lambda: None)
    print(seen, file.read_text())
    await asyncio.sleep(0.3)
    print(file.read_text())

asyncio.run(run())
"""


def outcome(file: Path, seconds_of_a_save: float) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(seconds_of_a_save)],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@linux
def test_state_is_saved_while_it_changes(tmp_path: Path) -> None:
    seen, *last = outcome(tmp_path / "state", 0.0)
    assert seen in {"1", "2", "3", "4", "5"}
    assert last == ["last", "last"]


def test_a_snapshot_in_progress_does_not_overwrite_the_last_save(tmp_path: Path) -> None:
    """Each save takes longer than the program waits, so the one in progress must be killed."""
    assert outcome(tmp_path / "state", 1.0) == ["nothing", "last", "last"]


class Store:
    """Records which process wrote, and fails in the processes named in `failing`."""

    def __init__(self, file: Path, failing: str = "") -> None:
        self._file = file
        self._failing = failing
        self._state = [object()]

    def write(self) -> None:
        who = "copy" if copy.deepcopy(self._state) is self._state else "itself"
        if who in self._failing:
            raise OSError(28, "No space left on device")
        self._file.write_text(who)

    def drop_unfinished(self) -> None:
        raise AssertionError("nothing is unfinished")


class Changes:
    """A journal: the number of its file, and which files are no longer needed."""

    def __init__(self) -> None:
        self.number = 1
        self.needed_from = 0

    def begin_file(self) -> int:
        self.number += 1
        return self.number

    def remove_before(self, number: int) -> None:
        self.needed_from = number


@pytest.mark.parametrize("forks", [pytest.param(True, marks=linux), False])
@pytest.mark.parametrize("how", ["save", "finish"])
def test_a_complete_snapshot_replaces_the_older_files_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: bool, how: str
) -> None:
    monkeypatch.setattr(snapshot, "FORKS", forks)
    changes = Changes()
    snapshots = Snapshots(Store(tmp_path / "state"), changes)
    if how == "save":
        asyncio.run(snapshots.save())
        asyncio.run(snapshots.save())
    else:
        snapshots.finish(lambda: None)
    assert (tmp_path / "state").exists()
    assert changes.needed_from == changes.number == (3 if how == "save" else 2)


def test_a_failed_snapshot_keeps_the_journal(tmp_path: Path) -> None:
    changes = Changes()
    snapshots = Snapshots(Store(tmp_path / "state", failing="copy, itself"), changes)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(snapshots.save())
    with pytest.raises(OSError, match="No space"):
        snapshots.finish(lambda: None)
    assert changes.needed_from == 0


@linux
def test_the_forked_writer_makes_no_deep_copies(tmp_path: Path) -> None:
    copied: list[str] = []
    Snapshots(Store(tmp_path / "state"), Changes()).finish(lambda: copied.append("yes"))
    assert (tmp_path / "state").read_text() == "copy"
    assert copied == ["yes"]


@linux
def test_the_process_saves_if_the_forked_writer_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Snapshots(Store(tmp_path / "state", failing="copy"), Changes()).finish(lambda: None)
    assert (tmp_path / "state").read_text() == "itself"
    assert "No space left on device" in capfd.readouterr().err


def test_a_last_save_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        Snapshots(Store(tmp_path / "state", failing="copy, itself"), Changes()).finish(lambda: None)


@linux
def test_the_last_save_survives_a_kill_of_the_process_group(tmp_path: Path) -> None:
    """`dev` kills the group after a timeout; the save must complete nevertheless."""
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from shardmill.local.snapshot import Snapshots\n"
        "class Store:\n"
        "    def write(self):\n"
        "        time.sleep(0.5)\n"
        "        Path(sys.argv[1]).write_text('saved')\n"
        "        print('done', flush=True)\n"
        "class Changes:\n"
        "    def begin_file(self):\n"
        "        return 1\n"
        "Snapshots(Store(), Changes()).finish(lambda: os.killpg(0, signal.SIGKILL))\n"
    )
    with child_process(
        [sys.executable, "-c", program, str(tmp_path / "state")],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.communicate(timeout=50)[0] == b"done\n"
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "state").read_text() == "saved"


def test_the_process_saves_itself_where_it_cannot_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FORKS", False)
    Snapshots(Store(tmp_path / "state"), Changes()).finish(lambda: None)
    assert (tmp_path / "state").read_text() == "itself"
