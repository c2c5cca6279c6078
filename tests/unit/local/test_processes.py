"""Child processes that exit with their parent, and the workers of `dev`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardmill.client.dev_session import Session
from shardmill.local import workers as workers_module
from shardmill.local.child_process import child_command
from shardmill.local.state_folder import StateFolder, alive
from shardmill.local.workers import Workers
from support.processes import child_process

OUTPUTS = dict.fromkeys(
    (
        "StackName",
        "TableName",
        "BucketName",
        "JobMachineArn",
        "StepMachineArn",
        "LambdaQueueUrls",
        "DeadQueueUrl",
    ),
    "t",
)
IGNORE_SIGTERM = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
PROGRAM = """
import os, sys, time
print("up", os.getpid(), sys.argv[1:], repr(sys.stdin.read()), os.environ.get("SHARDMILL_TABLE"), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sleeper.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def test_a_child_runs_its_module_and_exits_with_its_parent(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import subprocess, time\n"
        "from shardmill.local.child_process import child_command\n"
        "subprocess.Popen(child_command('sleeper', '--x'), stdin=subprocess.PIPE, start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with child_process([sys.executable, parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[0] == "up"
        assert words[2:4] == ["['--x']", "''"]
        child = int(words[1])
        assert alive(child)
        process.kill()
        process.wait(10)
    until(lambda: not alive(child))


def test_a_child_without_a_module_prints_the_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardmill.local.child_process"], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 1
    assert "usage" in done.stderr


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def workers(tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(
        workers_module, "worker_command", lambda number: child_command("sleeper", str(number))
    )
    monkeypatch.setattr(workers_module, "RESTART_SECONDS", 0.1)
    folder = StateFolder.at(tmp_path / "state")
    here = "http://127.0.0.1:1"
    session = Session(here + "/x", "secret", here, os.getpid(), str(folder.path), OUTPUTS)
    workers_ = Workers(session, folder, messages.append)
    yield workers_
    workers_.stop()


def pids(workers: Workers, number: int) -> list[int]:
    lines = workers.folder.log(f"worker-{number}").read_text().splitlines(keepends=True)
    return [int(line.split()[1]) for line in lines if line.startswith("up") and line.endswith("\n")]


def test_workers_get_the_session_and_stop_together(workers: Workers) -> None:
    workers.start(2)
    until(lambda: len(pids(workers, 1)) == len(pids(workers, 2)) == 1)
    assert workers.folder.log("worker-1").read_text().rstrip().endswith(" t")
    running = pids(workers, 1) + pids(workers, 2)
    workers.stop()
    assert not [pid for pid in running if alive(pid)]


def test_workers_run_in_the_current_folder_and_import_nothing_from_it(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder belongs to the tasks, as for a worker started by a user."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json", "threading", "sleeper"):
        (project / f"{name}.py").write_text("raise SystemExit('must not be imported')")
    monkeypatch.chdir(project)
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    assert Path(f"/proc/{pids(workers, 1)[0]}/cwd").resolve() == project


def test_a_worker_that_fails_is_restarted_with_a_message(workers: Workers, messages: list[str]) -> None:
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    workers.supervise()
    assert messages == []
    os.kill(pids(workers, 1)[0], signal.SIGKILL)

    def replaced() -> bool:
        workers.supervise()
        return len(pids(workers, 1)) == 2

    until(replaced)
    assert len(messages) == 1
    assert "worker 1" in messages[0]
    assert str(workers.folder.log("worker-1")) in messages[0]


def test_a_worker_that_ignores_sigterm_is_killed(workers: Workers, tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(IGNORE_SIGTERM + PROGRAM)
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    workers.stop()
    assert not alive(pids(workers, 1)[0])
