"""The laptop fixture, with a fake `shardmill` command."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.laptop import LaptopFault, start_laptop
from support.processes import descendants, still_alive

_COMMAND = """
import json, os, signal, subprocess, sys, time
mode = os.environ.get("FAKE_MODE", "")
sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
if sys.argv[1] == "worker":
    print("worker", os.environ["SHARDMILL_URL"], flush=True)
    time.sleep(60)
if sys.argv[1] == "echo":
    print(json.dumps([sys.argv[2:], os.environ["SHARDMILL_TOKEN"], os.environ.get("AWS_ACCESS_KEY_ID")]))
    sys.exit(3)
if mode == "fails":
    sys.exit("no room")
child = subprocess.Popen(sleeper, start_new_session=True)
def stop(*_):
    if mode == "hangs":
        return
    if mode != "leaks":
        child.kill()
        child.wait()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
ready = {"url": "http://127.0.0.1:1/x/", "token": "t", "awsEndpoint": "http://127.0.0.1:1", "pid": 1}
print(json.dumps(ready), flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture(autouse=True)
def _fake_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "shardmill"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(_COMMAND)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


def test_the_laptop_starts_and_leaves_no_processes(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=2, port=4567) as laptop:
        assert (laptop.url, laptop.token) == ("http://127.0.0.1:1/x/", "t")
        assert laptop.client.headers["Authorization"] == "Bearer t"
        assert laptop.process.command[-4:] == ["--workers", "2", "--port", "4567"]
        children = descendants(laptop.process.pid)
        assert len(children) == 1
    assert still_alive({laptop.process.pid, *children}, 0) == {}


def test_workers_and_commands_connect_to_the_laptop(tmp_path: Path) -> None:
    with start_laptop(tmp_path) as laptop:
        worker = laptop.worker("--group", "g")
        assert worker.first_line(10) == "worker http://127.0.0.1:1/x/\n"
        killed = laptop.worker()
        killed.kill()
        assert still_alive({killed.pid}, 0) == {}
        done = laptop.run("echo", "a", "b")
        assert done.returncode == 3
        assert json.loads(done.stdout) == [["a", "b"], "t", None]
    assert still_alive({worker.pid}, 0) == {}


def test_a_failed_start_is_reported_with_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "fails")
    with pytest.raises(LaptopFault, match=r"(?s)ended with 1.*no room"), start_laptop(tmp_path):
        pass


def test_a_slow_stop_fails_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "hangs")
    monkeypatch.setattr("support.laptop.STOP_SECONDS", 0.5)
    children: set[int] = set()
    with pytest.raises(LaptopFault, match="did not end within"), start_laptop(tmp_path) as laptop:
        children |= descendants(laptop.process.pid)
    assert children
    assert still_alive(children, 2.0) == {}


def test_a_remaining_process_fails_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "leaks")
    monkeypatch.setattr("support.laptop.STOP_SECONDS", 2.0)
    children: set[int] = set()
    with pytest.raises(LaptopFault, match=r"left processes behind.*time.sleep\(60\)"):  # noqa: SIM117
        with start_laptop(tmp_path) as laptop:
            children |= descendants(laptop.process.pid)
    for child in children:
        os.kill(child, signal.SIGKILL)
