"""How `dev` ends its emulator: it is given the time to save, and a save that failed is told."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardmill.local import cloud as module
from shardmill.local.cloud import Cloud
from shardmill.local.errors import SPOILT_CODE, CloudFailed, Refused
from shardmill.local.state_folder import StateFolder
from support.processes import child_process

EMULATOR = """
import os, signal, sys, time
from pathlib import Path
saved = Path(sys.argv[1])

def stop(*_):
    {stop}

signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True:
    time.sleep(60)
"""
ENDS = "os._exit(0)"
FAILS_TO_SAVE = "os._exit(1)"
HANGS = "return"
SAVES_LONG = """
    time.sleep(1)
    saved.mkdir()
    os._exit(0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder.at(tmp_path)
    made.prepare()
    return made


@contextmanager
def running(folder: StateFolder, stop: str) -> Iterator[Cloud]:
    program = EMULATOR.format(stop=stop)
    command = [sys.executable, "-c", program, str(folder.services)]
    with child_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield Cloud("http://127.0.0.1:1", folder, process)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)


def test_one_that_ends_in_time_needs_no_words(folder: StateFolder, said: list[str]) -> None:
    with running(folder, ENDS) as cloud:
        cloud.stop(said.append)
        assert cloud.process.returncode == 0
    assert said == []


@pytest.mark.usefixtures("_impatient")
def test_one_that_still_saves_is_awaited(folder: StateFolder, said: list[str]) -> None:
    with running(folder, SAVES_LONG) as cloud:
        cloud.stop(said.append)
        assert cloud.process.returncode == 0
    assert folder.services.exists()
    assert len(said) == 1


@pytest.mark.usefixtures("_impatient")
def test_one_that_hangs_is_ended_and_that_is_told(
    folder: StateFolder, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.2)
    with running(folder, HANGS) as cloud:
        with pytest.raises(CloudFailed, match=f"saved.*{folder.log('cloud')}"):
            cloud.stop(said.append)
        assert cloud.process.returncode == -signal.SIGKILL


def test_a_save_that_failed_is_told(folder: StateFolder, said: list[str]) -> None:
    with running(folder, FAILS_TO_SAVE) as cloud, pytest.raises(CloudFailed, match="saved"):
        cloud.stop(said.append)


def test_one_that_died_before_is_not_told_again(folder: StateFolder, said: list[str]) -> None:
    with running(folder, ENDS) as cloud:
        cloud.process.kill()
        cloud.process.wait(20)
        with pytest.raises(CloudFailed, match="ended by itself"):
            cloud.check()
        cloud.stop(said.append)


def test_one_that_cannot_read_its_state_is_a_refusal_with_its_last_words(folder: StateFolder) -> None:
    folder.log("cloud").write_text("Traceback\nthe state file x cannot be read (y)\n")
    with child_process([sys.executable, "-c", f"raise SystemExit({SPOILT_CODE})"]) as process:
        process.wait(20)
        with pytest.raises(Refused, match=rf"^the state file x cannot be read \(y\); .*{folder.path}"):
            Cloud("http://127.0.0.1:1", folder, process).check()
