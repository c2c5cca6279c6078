"""A task tries each way to take the credentials of the worker that runs it. Workers are real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_process import COMMAND
from support.fakes.api import NOW, FakeApi
from support.fakes.leases import a_lease
from support.paths import PROJECT

SPY = str(PROJECT / "tests/support/spy_on_parent.py")
SECRET = f"sm_fixture-{os.getpid()}-do-not-show"
"""Differs between the processes that run tests at the same time, because the spy looks at all processes."""

BACKWARDS = SECRET[::-1]
"""What the spy gets as its argument: otherwise the secret would be in its own command line and the lease."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc")

# Root without capabilities may do with its own processes what any other user may.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
AWS_KEYS = {"AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET}


def report_of_a_task(tmp_path: Path, *options: str, prefix: list[str], environ: dict[str, str]) -> Any:
    """Run a worker for one task, which runs the spy; return the result that it reported."""
    api = FakeApi()
    worker = {"id": "w1", "name": "w", "session": 1, "groups": ["default"], "heartbeatSeconds": 20}
    worker |= {"createTime": NOW, "updateTime": NOW}
    lease = a_lease(content=f"exec {sys.executable} {SPY} {BACKWARDS}")
    api.on("POST", "/v1/workers", worker)
    api.on("POST", "/v1/workers/w1:heartbeat", {"status": 0, "heartbeatSeconds": 20})
    api.on("POST", "/v1/work:lease", {"items": [lease.model_dump(mode="json")]}, {"items": []})
    done = {"taskId": lease.task_id, "attempt": 1, "status": "ok", "state": "SUCCESS"}
    api.on("POST", "/v1/work:report", {"items": [done]})
    with api.served() as url:
        ended = subprocess.run(
            [*prefix, *COMMAND, "worker", "--name", "w", "--cache-mb", "0", "--max-tasks", "1", *options],
            env={**os.environ, "TMPDIR": str(tmp_path), "SHARDMILL_URL": url, **environ},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    [reported] = [each for each in api.requests if each.path == "/v1/work:report"]
    assert reported.headers["authorization"] == f"Bearer {SECRET}"
    [result] = reported.document["results"]
    assert result["outcome"] == "success", result
    assert SECRET not in ended.stdout + ended.stderr
    return json.loads(result["stdout"])


NOTHING = {
    "environ": "denied",
    "cmdline": "readable",
    "mem": "denied",
    "process_vm_readv": "denied",
    "ptrace": "denied",
    "fd": "denied",
    "pidfd_getfd": "denied",
    "own environment": "readable",
    "inherited files": "denied",
    "every process": "readable",
}


def test_the_spy_finds_the_secret_of_an_unprotected_parent() -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, {SPY!r}, {BACKWARDS!r}])"
    command = [*UNPRIVILEGED, sys.executable, "-c", code]
    environ = {**os.environ, "SHARDMILL_TOKEN": SECRET}
    found = json.loads(subprocess.check_output(command, env=environ, timeout=50))
    assert (found["environ"], found["fd"], found["own environment"]) == ("secret", "readable", "secret")


def test_a_task_cannot_read_its_worker(tmp_path: Path) -> None:
    environ = {"SHARDMILL_TOKEN": SECRET, **AWS_KEYS}
    assert report_of_a_task(tmp_path, prefix=UNPRIVILEGED, environ=environ) == NOTHING


def test_a_token_on_the_command_line_is_overwritten(tmp_path: Path) -> None:
    given = [f"--token={SECRET}"]
    assert report_of_a_task(tmp_path, *given, prefix=UNPRIVILEGED, environ={}) == NOTHING


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_task_of_root_finds_no_credentials_in_environment_and_command_line(tmp_path: Path) -> None:
    """Root can read the memory of every process; only another user for tasks prevents that."""
    environ = {"SHARDMILL_TOKEN": SECRET, **AWS_KEYS}
    found = report_of_a_task(tmp_path, "--token", SECRET, prefix=[], environ=environ)
    assert (found["environ"], found["cmdline"]) == ("readable", "readable")
    assert (found["own environment"], found["every process"]) == ("readable", "readable")
    assert (found["inherited files"], found["mem"]) == ("denied", "secret")


def test_the_runner_on_lambda_keeps_its_role_and_hides_it() -> None:
    code = f"""
import ctypes, json, subprocess, sys
sys.path.insert(0, {str(PROJECT / "functions/runner")!r})
import app
from shardmill.aws import clients
seen = json.loads(subprocess.check_output([sys.executable, {SPY!r}, {BACKWARDS!r}]))
found = clients._session().get_credentials().get_frozen_credentials()
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
print(json.dumps([seen, list(found), dumpable]))
"""
    environ = {**os.environ, **AWS_KEYS, "AWS_LAMBDA_FUNCTION_NAME": "runner"}
    command = [*UNPRIVILEGED, sys.executable, "-c", code]
    seen, keys, dumpable = json.loads(subprocess.check_output(command, env=environ, timeout=50))
    assert seen == NOTHING
    assert keys[:3] == [SECRET] * 3
    assert dumpable == 0, "a crash would write a core file with the credentials"
