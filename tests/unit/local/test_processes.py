"""Processes on a leash, and the crew of workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardmill.local import workers as crew
from shardmill.local.child_process import leashed
from shardmill.local.session import Session
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
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
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


def test_a_leashed_program_runs_as_itself_and_ends_with_its_parent(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import subprocess, time\n"
        "from shardmill.local.child_process import leashed\n"
        "subprocess.Popen(leashed('sleeper', '--x'), stdin=subprocess.PIPE, start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with child_process([sys.executable, parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[0] == "up"
        assert said[2:4] == ["['--x']", "''"]
        child = int(said[1])
        assert alive(child)
        process.kill()
        process.wait(10)
    until(lambda: not alive(child))


def test_a_leash_without_a_module_says_how() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardmill.local.child_process"], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 1
    assert "usage" in done.stderr


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def workers(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(crew, "worker_command", lambda number: leashed("sleeper", str(number)))
    monkeypatch.setattr(crew, "RESTART_SECONDS", 0.1)
    folder = StateFolder.at(tmp_path / "state")
    here = "http://127.0.0.1:1"
    session = Session(here + "/x", "secret", here, os.getpid(), str(folder.path), OUTPUTS)
    made = Workers(session, folder, said.append)
    yield made
    made.stop()


def pids(workers: Workers, number: int) -> list[int]:
    lines = workers.folder.log(f"worker-{number}").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("up")]


def test_workers_know_the_cloud_and_stop_together(workers: Workers) -> None:
    workers.start(2)
    until(lambda: len(pids(workers, 1)) == len(pids(workers, 2)) == 1)
    assert workers.folder.log("worker-1").read_text().rstrip().endswith(" t")
    running = pids(workers, 1) + pids(workers, 2)
    workers.stop()
    assert not [pid for pid in running if alive(pid)]


def test_workers_are_where_dev_was_started_and_take_no_module_from_there(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker that is started by hand: what is there is for the tasks."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json", "threading", "sleeper"):
        (project / f"{name}.py").write_text("raise SystemExit('not mine')")
    monkeypatch.chdir(project)
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    assert Path(f"/proc/{pids(workers, 1)[0]}/cwd").resolve() == project


def test_a_worker_that_dies_is_replaced_with_a_message(workers: Workers, said: list[str]) -> None:
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    workers.tend()
    assert said == []
    os.kill(pids(workers, 1)[0], signal.SIGKILL)

    def replaced() -> bool:
        workers.tend()
        return len(pids(workers, 1)) == 2

    until(replaced)
    assert len(said) == 1
    assert "worker 1" in said[0]
    assert str(workers.folder.log("worker-1")) in said[0]


def test_a_deaf_worker_is_ended_all_the_same(workers: Workers, tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(DEAF + PROGRAM)
    workers.start(1)
    until(lambda: len(pids(workers, 1)) == 1)
    workers.stop()
    assert not alive(pids(workers, 1)[0])
