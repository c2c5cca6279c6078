"""How `dev` stops its emulator: it waits for the save, and reports a save that failed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardmill.local import cloud as module
from shardmill.local.cloud import Cloud
from shardmill.local.errors import CORRUPT_STATE_EXIT_CODE, CloudFailed, Refused
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
def messages() -> list[str]:
    return []


@pytest.fixture
def _short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)


def test_an_emulator_that_exits_in_time_prints_nothing(folder: StateFolder, messages: list[str]) -> None:
    with running(folder, ENDS) as cloud:
        cloud.stop(messages.append)
        assert cloud.process.returncode == 0
    assert messages == []


@pytest.mark.usefixtures("_short_timeout")
def test_stop_waits_while_the_state_is_saved(folder: StateFolder, messages: list[str]) -> None:
    with running(folder, SAVES_LONG) as cloud:
        cloud.stop(messages.append)
        assert cloud.process.returncode == 0
    assert folder.services.exists()
    assert len(messages) == 1


@pytest.mark.usefixtures("_short_timeout")
def test_an_emulator_that_hangs_is_killed_and_reported(
    folder: StateFolder, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.2)
    with running(folder, HANGS) as cloud:
        with pytest.raises(CloudFailed, match=f"saved.*{folder.log('cloud')}"):
            cloud.stop(messages.append)
        assert cloud.process.returncode == -signal.SIGKILL


def test_a_failed_save_is_reported(folder: StateFolder, messages: list[str]) -> None:
    with running(folder, FAILS_TO_SAVE) as cloud, pytest.raises(CloudFailed, match="saved"):
        cloud.stop(messages.append)


def test_an_exit_before_the_stop_is_not_reported_twice(folder: StateFolder, messages: list[str]) -> None:
    with running(folder, ENDS) as cloud:
        cloud.process.kill()
        cloud.process.wait(20)
        with pytest.raises(CloudFailed, match="exited unexpectedly"):
            cloud.check()
        cloud.stop(messages.append)


def test_corrupt_state_is_reported_with_the_last_line_of_the_log(folder: StateFolder) -> None:
    folder.log("cloud").write_text("Traceback\nthe state file x cannot be read (y)\n")
    with child_process([sys.executable, "-c", f"raise SystemExit({CORRUPT_STATE_EXIT_CODE})"]) as process:
        process.wait(20)
        with pytest.raises(Refused, match=rf"^the state file x cannot be read \(y\); .*{folder.path}"):
            Cloud("http://127.0.0.1:1", folder, process).check()
