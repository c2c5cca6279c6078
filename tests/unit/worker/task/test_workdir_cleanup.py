"""Cleanup of worker folders: those of dead workers are removed with their processes, others are kept."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shardmill.worker.task import process, workdir
from support.fakes.programs import stand_in
from support.processes import alive, child_process, gone
from support.worker_log import actions

WORKER = """
import sys, threading
from pathlib import Path
sys.path[:0] = {path!r}
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from shardmill.worker.task.workdir import create_worker_dir
from support.fakes.leases import a_lease
with create_worker_dir(keep={keep}) as root:
    lease = a_lease({type!r}, {content!r})
    execute(lease, Runtime(root, Programs(docker={docker!r}), keep={keep}), threading.Event())
"""


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartWorker]:
    """Return a function that starts a worker process, which runs one task."""

    def start(content: str, type: str = "shell", docker: str = "docker", keep: bool = False) -> object:
        program = WORKER.format(path=sys.path, content=content, type=type, docker=docker, keep=keep)
        return children.enter_context(child_process([sys.executable, "-c", program]))

    with ExitStack() as children:
        yield start
    workdir.remove_stale_dirs()


def pid_in(path: Path) -> int:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


def endless_script(pid: Path) -> str:
    return f"echo $$ > {pid}.new; mv {pid}.new {pid}; while :; do sleep 0.05; done"


def test_the_folder_of_a_worker_is_removed_when_it_ends(temp: Path) -> None:
    with workdir.create_worker_dir(keep=False) as root:
        (root / "made").mkdir()
        assert [root] == list(temp.iterdir())
    assert list(temp.iterdir()) == []


def test_folders_and_programs_of_a_killed_worker_are_removed(
    temp: Path, tmp_path: Path, start: StartWorker
) -> None:
    worker = start(endless_script(tmp_path / "pid"))
    task = pid_in(tmp_path / "pid")
    [root] = temp.iterdir()
    workdir.remove_stale_dirs()
    assert alive(task)
    assert root.exists()
    worker.kill()
    worker.wait(20)
    assert alive(task)
    with workdir.create_worker_dir(keep=False) as own:
        assert list(temp.iterdir()) == [own]
        assert gone(task)


def test_a_program_that_a_killed_worker_had_not_recorded_is_ended(
    temp: Path, tmp_path: Path, start: StartWorker
) -> None:
    worker = start(endless_script(tmp_path / "pid"))
    task = pid_in(tmp_path / "pid")
    _await(lambda: any(temp.glob("*/*/session.json")))
    next(temp.glob("*/*/session.json")).unlink()
    worker.kill()
    worker.wait(20)
    workdir.remove_stale_dirs()
    assert gone(task)
    assert list(temp.iterdir()) == []


def test_a_container_of_a_killed_worker_is_removed(tmp_path: Path, start: StartWorker) -> None:
    calls = tmp_path / "bin"
    calls.mkdir()
    docker = stand_in(calls, "docker", "import time\nif sys.argv[1] == 'run': time.sleep(60)")
    worker = start("alpine", "docker", str(docker.path))
    _await(lambda: docker.calls_path.exists() and docker.words)
    _await(lambda: any(Path(tempfile.gettempdir()).glob("*/*/session.json")))
    worker.kill()
    worker.wait(20)
    workdir.remove_stale_dirs()
    _await(lambda: ["rm", "--force", docker.words[0][3]] in docker.words)


def test_folders_of_a_worker_started_with_keep_are_kept(
    temp: Path, tmp_path: Path, start: StartWorker
) -> None:
    start("touch made", keep=True).wait(20)
    workdir.remove_stale_dirs()
    assert [path.name for path in temp.rglob("made")] == ["made"]


def test_folders_that_may_belong_to_a_live_worker_are_kept(temp: Path) -> None:
    elsewhere = temp / "elsewhere"
    for folder in (elsewhere, temp / "shardmill-worker-unlocked", temp / "shardmill-other"):
        folder.mkdir()
    (elsewhere / "lock").touch()
    (temp / "shardmill-other" / "lock").touch()
    (temp / "shardmill-worker-link").symlink_to(elsewhere)
    (temp / "shardmill-worker-file").touch()
    before = sorted(temp.rglob("*"))
    workdir.remove_stale_dirs()
    assert sorted(temp.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a folder")
def test_folders_of_other_users_are_kept(temp: Path) -> None:
    root = temp / "shardmill-worker-other-user"
    root.mkdir()
    (root / "lock").touch()
    os.chown(root, 65534, 65534)
    workdir.remove_stale_dirs()
    assert (root / "lock").exists()


@pytest.mark.parametrize("text", ["", "7", "[1]", '["x", "y", 3]', '{"a": 1}', "[1, null, 7]"])
def test_an_invalid_record_is_logged_and_skipped(
    temp: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    task = temp / "shardmill-worker-dead" / "task"
    task.mkdir(parents=True)
    (task.parent / "lock").touch()
    (task / "session.json").write_text(text)
    workdir.remove_stale_dirs()
    assert not task.parent.exists()
    assert [action for action in actions(caplog) if "orphan" in action] == ["orphan-end-failed"]


def test_a_process_that_reuses_the_pid_is_not_killed(tmp_path: Path) -> None:
    with child_process(["sleep", "60"], start_new_session=True) as other:
        for birth in ("12345 an-old-boot", None):
            record = tmp_path / "session.json"
            record.write_text(json.dumps([other.pid, birth]))
            process.end_orphan(record)
            assert other.poll() is None
        record.write_text(json.dumps([other.pid, process._fingerprint(other.pid)]))
        process.end_orphan(record)
        assert other.wait(10) == -signal.SIGKILL


def _await(predicate: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline
        time.sleep(0.02)
