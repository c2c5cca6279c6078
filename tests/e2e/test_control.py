"""Kill, suspend, resume and rerun Jobs with running programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.laptop import Laptop
from support.waits import run_until

pytestmark = pytest.mark.xdist_group("waiting")  # waits for ticks and heartbeats, uses little CPU


@pytest.fixture
def group(laptop: Laptop) -> str:
    """A group whose workers send a heartbeat every three seconds."""
    assert laptop.request("PUT", "/v1/groups/brisk", {"leaseSeconds": 10}).is_success
    laptop.worker("--group", "brisk", "--slots", "4")
    return "brisk"


def submit(laptop: Laptop, name: str, content: str, **definition: Any) -> None:
    step = {"stepName": "a", "type": "shell", "content": content, "sharding": 2}
    document = {"steps": [step, {"stepName": "b", "dependentStep": "a"}], **definition}
    assert laptop.request("PUT", f"/v1/definitions/{name}", document).is_success
    assert laptop.request("POST", "/v1/jobs", {"jobName": name, "trigger": "t"}).status_code == 202


def state(laptop: Laptop, name: str) -> str:
    return str(laptop.request("GET", f"/v1/jobs/{name}/t").json()["state"])


def pids(folder: Path) -> list[int]:
    return [int(file.read_text() or 0) for file in folder.glob("pid-*")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_killing_a_job_ends_its_programs(laptop: Laptop, group: str, tmp_path: Path) -> None:
    submit(laptop, "killed", f"echo $$ > {tmp_path}/pid-$SHARDMILL_SHARD_INDEX; sleep 600", workerGroup=group)
    run_until(lambda: len([pid for pid in pids(tmp_path) if pid]) == 2, 40)
    running = pids(tmp_path)
    done = laptop.run("kill", "killed", "t", "--reason", "enough")
    assert done.returncode == 0, done.stderr
    assert state(laptop, "killed") == "KILLED"
    run_until(lambda: not any(map(alive, running)), 30)
    explanation = laptop.run("why", "killed", "t").stdout
    assert "killed by admin: enough" in explanation


def test_a_suspended_job_is_resumed_and_rerun(laptop: Laptop, group: str, tmp_path: Path) -> None:
    """Each task waits for one file, and fails unless another exists."""
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"
    content = f"echo $$ >> {tmp_path}/log; {wait}; test -e {tmp_path}/fine"
    submit(laptop, "parked", content, workerGroup=group)
    run_until(lambda: (tmp_path / "log").exists() and state(laptop, "parked") == "RUNNING", 40)
    assert laptop.run("suspend", "parked", "t", "--reason", "lunch").returncode == 0
    first = [int(pid) for pid in (tmp_path / "log").read_text().split()]
    run_until(lambda: not any(map(alive, first)), 30)
    assert state(laptop, "parked") == "SUSPENDED"
    assert laptop.run("resume", "parked", "t").returncode == 0
    (tmp_path / "go").touch()
    run_until(lambda: state(laptop, "parked") == "FAILED", 60)
    (tmp_path / "fine").touch()
    rerun = laptop.run("rerun", "parked", "t", "--wait")
    assert rerun.returncode == 0, rerun.stderr
    job = laptop.request("GET", "/v1/jobs/parked/t").json()
    assert (job["state"], job["run"]) == ("SUCCESS", 2)
    assert [step["counts"] for step in job["steps"]] == [{"SUCCESS": 2}, {"SUCCESS": 1}]
    history = laptop.run("history", "parked", "t").stdout
    assert "lunch" in history
    assert laptop.run("delete", "parked", "t", "--full").returncode == 0
    assert laptop.request("GET", "/v1/jobs/parked/t").status_code == 404
