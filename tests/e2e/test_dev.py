"""`shardmill dev`: its ready line, exclusive use of a port and folder, and a clean stop."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.laptop import Laptop, Process, start_laptop
from support.processes import descendants, still_alive

DEFINITION = {"steps": [{"stepName": "a", "type": "noop", "sharding": 3}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dev")


@pytest.fixture(scope="module")
def dev(folder: Path) -> Iterator[Laptop]:
    """`shardmill dev`, started in `folder`, which has a module for tasks."""
    (folder / "our_tasks.py").write_text("def count(task):\n    print('counted in', __file__)\n")
    with ExitStack() as stack:
        with chdir(folder):
            started = stack.enter_context(start_laptop(folder, workers=1))
        yield started


def port_of(laptop: Laptop) -> int:
    return int(laptop.aws_endpoint.rsplit(":", 1)[1])


def test_the_api_responds_and_has_the_initial_groups(dev: Laptop) -> None:
    assert dev.request("GET", "/v1/health").status_code == 200
    groups = {group["name"]: group["kind"] for group in dev.request("GET", "/v1/groups").json()["items"]}
    assert groups == {"default": "pull", "lambda": "lambda"}


def test_the_api_rejects_a_request_without_a_token(dev: Laptop) -> None:
    answer = dev.client.get(f"{dev.url}/v1/groups", headers={"Authorization": ""})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("application/problem+json")


def test_dev_listens_on_loopback_only(dev: Laptop) -> None:
    listening = {
        line.split()[1]
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    assert [address for address in listening if address.endswith(f":{port_of(dev):04X}")] == [
        f"0100007F:{port_of(dev):04X}"
    ]


def test_the_session_file_matches_the_ready_line_and_the_command_line_uses_it(
    dev: Laptop, folder: Path
) -> None:
    session = json.loads((dev.state / "dev.json").read_text())
    assert (session["url"], session["token"], session["pid"]) == (dev.url, dev.token, dev.process.pid)
    found = subprocess.run(
        [sys.executable, "-m", "shardmill", "groups", "--json"],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=30,
    )
    assert found.returncode == 0, found.stderr
    assert '"default"' in found.stdout


def test_the_worker_of_dev_runs_a_job(dev: Laptop) -> None:
    assert dev.request("PUT", "/v1/definitions/quick", DEFINITION).is_success
    assert dev.request("POST", "/v1/jobs", {"jobName": "quick", "trigger": "t1"}).status_code == 202
    assert wait_for_end(dev, "quick", "t1") == "SUCCESS"


def test_the_worker_of_dev_imports_modules_from_the_current_folder(dev: Laptop, folder: Path) -> None:
    steps = [{"stepName": "a", "type": "python", "content": "our_tasks:count"}]
    assert dev.request("PUT", "/v1/definitions/ours", {"steps": steps}).is_success
    assert dev.request("POST", "/v1/jobs", {"jobName": "ours", "trigger": "t1"}).status_code == 202
    assert wait_for_end(dev, "ours", "t1") == "SUCCESS"
    assert str(folder / "our_tasks.py") in dev.run("logs", "ours", "t1", "a", "0").stdout


def test_a_worker_over_http_uses_a_token_for_workers_only(dev: Laptop, folder: Path) -> None:
    token = json.loads((dev.state / "dev.json").read_text())["worker_token"]
    assert token == (dev.state / "worker-token").read_text().strip() != dev.token
    headers = {"Authorization": f"Bearer {token}"}
    assert dev.client.get(f"{dev.url}/v1/jobs", headers=headers).status_code == 403
    assert dev.request("PUT", "/v1/groups/http", {}).is_success
    command = ["worker", "--group", "http", "--name", "over-http", "--once"]
    found = subprocess.run(
        [sys.executable, "-m", "shardmill", *command],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    [worker] = [
        each for each in dev.request("GET", "/v1/workers").json()["items"] if each["name"] == "over-http"
    ]
    assert worker["owner"] == "dev-worker"


def wait_for_end(laptop: Laptop, name: str, trigger: str, seconds: float = 30.0) -> str:
    deadline = time.monotonic() + seconds
    state = ""
    while time.monotonic() < deadline and state not in ("SUCCESS", "FAILED", "KILLED"):
        time.sleep(0.05)
        state = laptop.request("GET", f"/v1/jobs/{name}/{trigger}").json()["state"]
    return state


@pytest.mark.parametrize("same", ["state", "port"])
def test_a_second_instance_is_refused_with_a_one_line_error(dev: Laptop, tmp_path: Path, same: str) -> None:
    options = {
        "state": ["--state", str(dev.state)],
        "port": ["--port", str(port_of(dev)), "--state", str(tmp_path)],
    }
    second = dev.run("dev", "--json", "--workers", "0", *options[same])
    assert second.returncode == 2
    assert second.stdout == ""
    expected = {"state": str(dev.state), "port": str(port_of(dev))}[same]
    assert expected in second.stderr
    assert f"--{same}" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_dev_in_time_without_leftovers(tmp_path: Path, sign: signal.Signals) -> None:
    """Even during a long poll, when a Lambda process is in the middle of an invocation."""
    with start_laptop(tmp_path, workers=1) as laptop:
        worker = {
            "name": "w",
            "groups": ["default"],
            "host": "h",
            "port": 1,
            "cores": 1,
            "apps": ["*"],
            "slots": 1,
        }
        registered = laptop.request("POST", "/v1/workers", worker).json()
        request = {
            "workerId": registered["id"],
            "session": registered["session"],
            "max": 1,
            "waitSeconds": 20,
        }
        waiting = threading.Thread(target=_lease_and_ignore_the_response, args=(laptop, request))
        waiting.start()
        time.sleep(2)
        processes = descendants(laptop.process.pid)
        assert len(processes) >= 5
        os.kill(laptop.process.pid, sign)
        assert laptop.process.popen is not None
        assert laptop.process.popen.wait(5) == 0
        waiting.join()
        assert still_alive(processes, 0.5) == {}
    assert not (laptop.state / "dev.json").exists()
    assert list((tmp_path / "cache" / "shardmill" / "dev").iterdir()) == []


def _lease_and_ignore_the_response(laptop: Laptop, request: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {laptop.token}"}
    with httpx.Client(timeout=30, trust_env=False, headers=headers) as own, suppress(httpx.HTTPError):
        own.post(f"{laptop.url}/v1/work:lease", json=request)


def test_a_stop_during_startup_is_clean(tmp_path: Path) -> None:
    process = Process(["dev", "--json", "--state", str(tmp_path / "state")], tmp_path / "log").start()
    time.sleep(1.5)
    processes = descendants(process.pid)
    assert process.stop() == 0
    assert still_alive(processes, 0.5) == {}


def test_dev_exits_with_an_error_when_the_emulator_exits(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        processes = descendants(laptop.process.pid)
        emulator = next(pid for pid in processes if b"emulator" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(emulator, signal.SIGKILL)
        assert laptop.process.popen is not None
        assert laptop.process.popen.wait(10) == 1
        assert "cloud.log" in laptop.process.read_log()
        assert still_alive(processes, 5) == {}


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = Process(
            ["dev", "--json", "--port", port, "--state", str(tmp_path / "s")], tmp_path / "log"
        ).start()
        assert process.popen is not None
        assert process.popen.wait(20) == 2
        assert port in process.read_log()
        process.stop()
    assert not (tmp_path / "s").exists()
