"""The command as a process of its own: what it prints where, how it ends, and how quickly it helps."""

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.fake_api import TOKEN, FakeApi, job, page, step, task

COMMAND = [sys.executable, "-m", "shardmill"]
JOB = "/v1/jobs/report/t1"


def environment(url: str = "", **more: str) -> dict[str, str]:
    named = {"SHARDMILL_URL": url, "SHARDMILL_TOKEN": TOKEN} if url else {}
    return {**os.environ, "XDG_CACHE_HOME": "/nonexistent", **named, **more}


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=env or environment(),
        timeout=20,
        check=False,
    )


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['shardmill', '--help']\nfrom shardmill.cli.main import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "httpx", "rich", "yaml", "boto3", "shardmill.client", "shardmill.local"}
    assert not heavy & set(found.stderr.split())
    assert min(_seconds("--help") for _ in range(3)) < 0.4


def _seconds(*arguments: str) -> float:
    """Of the processor, which a busy machine does not change much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run(*arguments).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_without_a_command_it_shows_the_help() -> None:
    found = run()
    assert found.returncode == 2
    assert "Commands:" in found.stdout + found.stderr


def test_the_version() -> None:
    assert run("--version").stdout.strip()


def test_exit_codes(api: FakeApi) -> None:
    api.on("GET", JOB, job("FAILED"))
    with api.served() as url:
        env = environment(url)
        codes = {
            arguments: run(*arguments.split(), env=env).returncode
            for arguments in ("job report t1", "job report", "job nobody t1", "watch report t1")
        }
        api.on("GET", JOB, job("RUNNING"))
        codes["timed out"] = run("watch", "report", "t1", "--timeout", "0", env=env).returncode
    assert list(codes.values()) == [0, 2, 3, 4, 5]


def test_a_closed_pipe_is_silent(api: FakeApi) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks", page(*(task(index) for index in range(200)), cursor="more"))
    for more in ("", "--json"):
        with api.served() as url:
            line = f"{sys.executable} -m shardmill tasks report t1 main {more} | head -2"
            found = subprocess.run(
                ["sh", "-c", line],
                capture_output=True,
                text=True,
                env=environment(url),
                timeout=20,
                check=True,
            )
        assert len(found.stdout.splitlines()) == 2
        assert found.stderr == ""


def test_a_pipe_closed_from_the_start_is_silent(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(job()))
    with api.served() as url:
        reading, writing = os.pipe()
        os.close(reading)
        found = subprocess.run(
            [*COMMAND, "jobs"],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(url),
            timeout=20,
            check=False,
        )
        os.close(writing)
    assert (found.returncode, found.stderr) == (141, b"")


def test_an_ascii_terminal_is_no_reason_to_fail(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(job(submitUser="zoë")))
    with api.served() as url:
        env = environment(url, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert "zo\\xeb" in run("jobs", env=env).stdout


def test_ctrl_c_while_waiting_says_that_the_job_goes_on(api: FakeApi) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    with (
        api.served() as url,
        subprocess.Popen(
            [*COMMAND, "watch", "report", "t1"], stderr=subprocess.PIPE, text=True, env=environment(url)
        ) as process,
    ):
        assert process.stderr
        assert "RUNNING" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(10) == 130
    assert "the Job goes on; see it with: shardmill watch report t1" in rest
    assert "Traceback" not in rest


def on_a_terminal(*arguments: str, env: dict[str, str]) -> tuple[int, str]:
    """Runs a command with a terminal for everything; gives its exit code and what was seen."""
    terminal, other = pty.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], stdin=other, stdout=other, stderr=other, env=env)
    os.close(other)
    seen = b""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        readable, _, _ = select.select([terminal], [], [], 0.1)
        if readable:
            try:
                seen += os.read(terminal, 65_536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    os.close(terminal)
    return process.wait(5), seen.decode()


def test_on_a_terminal_there_are_live_bars_and_colours(api: FakeApi) -> None:
    running = [
        job("RUNNING", step("generate", total=12, done=done), step("merge", "WAITING")) for done in (0, 5, 9)
    ]
    ended = job("SUCCESS", step("generate", "SUCCESS", 12, 12), step("merge", "SUCCESS", 1, 1))
    with api.served() as url:
        env = environment(url, TERM="xterm-256color", COLUMNS="100")
        api.on("GET", JOB, *running, ended)
        code, seen = on_a_terminal("watch", "report", "t1", env=env)
        assert code == 0
        assert "12/12" in seen
        assert "━" in seen
        assert "\x1b[32mSUCCESS" in seen
        api.on("GET", JOB, *running, ended)
        code, seen = on_a_terminal("watch", "report", "t1", env={**env, "NO_COLOR": "1"})
        assert code == 0
        assert "12/12" in seen
        assert "\x1b[3" not in seen


def test_a_worker_without_anything_to_work_for_says_so(tmp_path: Path) -> None:
    env = environment(HOME=str(tmp_path))
    found = run("worker", "--group", "g", env=env)
    assert found.returncode == 1
    assert "start one with `shardmill dev`" in found.stderr
    found = run("worker", "--group", "g", "--aws", env=env)
    assert found.returncode == 1
    assert found.stderr.startswith("shardmill: SHARDMILL_STACK is not set")


def test_json_is_pure(api: FakeApi) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    with api.served() as url:
        found = run("job", "report", "t1", "--json", env=environment(url, FORCE_COLOR="1"))
    assert json.loads(found.stdout)["jobName"] == "report"
    assert found.stderr == ""
