"""State of `shardmill dev` across restarts: clean, by SIGKILL, and with changed code."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.laptop import Laptop, start_laptop
from support.paths import PROJECT
from support.processes import descendants, still_alive
from support.waits import run_until

DEFINITION = {
    "steps": [
        {"stepName": "a", "type": "noop", "sharding": 3},
        {"stepName": "b", "type": "noop", "dependentStep": "a"},
    ]
}
WORKER = {"name": "w", "groups": ["default"], "host": "h", "port": 1, "cores": 1, "apps": ["*"], "slots": 10}


def state_of(laptop: Laptop) -> Any:
    return laptop.request("GET", "/v1/jobs/restarted/t1").json()["state"]


def states_of_steps(laptop: Laptop) -> list[str]:
    return [step["state"] for step in laptop.request("GET", "/v1/jobs/restarted/t1").json()["steps"]]


def wait_until_tasks_are_queued(laptop: Laptop) -> None:
    """Wait until the step has its token and its messages are in the queue."""
    deadline = time.monotonic() + 20
    while laptop.request("GET", "/v1/jobs/restarted/t1/steps/a").json().get("state") != "READY":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)


def complete_job(laptop: Laptop, observe: Callable[[], None] = lambda: None) -> None:
    """Register a worker, lease all tasks and report success until the Job has ended."""
    me = laptop.request("POST", "/v1/workers", WORKER).json()
    deadline = time.monotonic() + 40
    while state_of(laptop) not in ("SUCCESS", "FAILED"):
        assert time.monotonic() < deadline, laptop.request("GET", "/v1/jobs/restarted/t1").text
        observe()
        request = {"workerId": me["id"], "session": me["session"], "max": 10, "waitSeconds": 2}
        leases = laptop.request("POST", "/v1/work:lease", request).json()["items"]
        results = [
            {key: lease[key] for key in ("taskId", "attempt", "receipt")} | {"outcome": "success"}
            for lease in leases
        ]
        if results:
            answer = laptop.request("POST", "/v1/work:report", {"workerId": me["id"], "results": results})
            assert answer.is_success, answer.text


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_running_job_continues_after_a_restart(tmp_path: Path, sign: signal.Signals) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("PUT", "/v1/definitions/restarted", DEFINITION).is_success
        assert (
            laptop.request("POST", "/v1/jobs", {"jobName": "restarted", "trigger": "t1"}).status_code == 202
        )
        wait_until_tasks_are_queued(laptop)
        before = (laptop.url, laptop.token)
        processes = descendants(laptop.process.pid)
        os.kill(laptop.process.pid, sign)
        assert still_alive(processes | {laptop.process.pid}, 5) == {}
    with start_laptop(tmp_path, workers=0) as laptop:
        assert (laptop.url, laptop.token) == before
        assert laptop.request("GET", "/v1/definitions/restarted").is_success
        complete_job(laptop)
        assert state_of(laptop) == "SUCCESS"


def test_many_open_steps_do_not_start_a_process_each_at_a_restart(tmp_path: Path) -> None:
    count = 12
    steps = [{"stepName": f"s{n}", "type": "noop"} for n in range(count)]
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("PUT", "/v1/definitions/restarted", {"steps": steps}).is_success
        assert laptop.request("POST", "/v1/jobs", {"jobName": "restarted", "trigger": "t1"}).is_success
        run_until(lambda: states_of_steps(laptop) == ["READY"] * count, timeout=40, interval=0.2)
    with start_laptop(tmp_path, workers=0) as laptop:
        most = 0

        def count_processes() -> None:
            nonlocal most
            commands = [still_alive({pid}, 0).get(pid, "") for pid in descendants(laptop.process.pid)]
            most = max(most, sum("shardmill-orchestrate" in command for command in commands))

        complete_job(laptop, count_processes)
        assert state_of(laptop) == "SUCCESS"
    assert 0 < most < count


def test_a_restart_right_after_a_sigkill_waits_for_the_state_to_be_saved(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("PUT", "/v1/definitions/restarted", DEFINITION).is_success
        os.kill(laptop.process.pid, signal.SIGKILL)
        with start_laptop(tmp_path, workers=0) as restarted:
            assert restarted.request("GET", "/v1/definitions/restarted").is_success


def test_a_corrupt_state_is_refused_and_not_changed(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("PUT", "/v1/definitions/restarted", DEFINITION).is_success
    services = laptop.state / "cloud" / "state"
    for file in (services / "dynamodb.json", laptop.state / "deployment.json"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        before = contents(services)
        refused = laptop.run("dev", "--json", "--state", str(laptop.state))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"{file} cannot be read" in refused.stderr.splitlines()[-1]
        assert f"remove the state folder {laptop.state} " in refused.stderr.splitlines()[-1]
        assert contents(services) == before
        file.write_bytes(content)
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("GET", "/v1/definitions/restarted").is_success


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_changed_code_is_deployed_and_the_state_stays(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("functions", "statemachine", "layers/core/python"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(PROJECT / "template.yaml", project)
    first_log = run_once(project, tmp_path)
    unchanged_log = run_once(project, tmp_path)
    authorizer = project / "functions" / "authorizer" / "app.py"
    authorizer.write_text(
        "def handler(event, context):\n    scopes = '[\"admin\"]'\n"
        "    return {'isAuthorized': True, 'context': {'actor': 'changed', 'scopes': scopes}}\n"
    )
    changed_log = run_once(project, tmp_path)
    assert [log.count("deploying") for log in (first_log, unchanged_log, changed_log)] == [1, 0, 1]
    assert changed_log.splitlines()[-1] == "[200]"


def run_once(project: Path, folder: Path) -> str:
    """Start `dev` on a copy of the project, request the groups without a token, stop; return the log."""
    program = (
        "import sys, urllib.request, urllib.error\n"
        "from pathlib import Path\n"
        "from shardmill.local.dev import laptop\n"
        "with laptop(None, Path(sys.argv[2]), 0, Path(sys.argv[1]), publish=False) as ready:\n"
        "    try:\n"
        "        status = urllib.request.urlopen(ready.session.url + '/v1/groups').status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        status = error.code\n"
        "print([status], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(project), str(folder / "state")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
