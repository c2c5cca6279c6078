"""The command as a process of its own: what it prints where, how it ends, and how quickly it helps."""

import json
import os
import pty
import pwd
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Lease
from support.fakes.api import NOW, TOKEN, FakeApi, Reply, backfill, job, page, problem, step, task
from support.fakes.leases import a_lease
from support.processes import child_process

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
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
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


def interrupted(api: FakeApi, *arguments: str) -> str:
    """What a command that waits says when it is interrupted after it has said something."""
    with (
        api.served() as url,
        child_process(
            [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment(url)
        ) as process,
    ):
        assert process.stderr
        assert "RUNNING" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest: str = process.communicate(timeout=10)[1]
        assert process.returncode == 130
    assert "Traceback" not in rest
    return rest


def test_ctrl_c_while_waiting_says_that_the_job_goes_on(api: FakeApi) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    said = interrupted(api, "watch", "report", "t1")
    assert "the job continues; to keep watching it, run: shardmill watch report t1" in said


BACKFILL = ["schedule", "backfill", "report", "nightly", "--time", "2026-01-01", "--wait"]


def test_ctrl_c_leaves_a_backfill_running_and_says_how_to_stop_it(api: FakeApi) -> None:
    api.on("POST", "/v1/schedules/report/nightly:backfill", Reply(backfill(running=1), 202))
    api.on("GET", "/v1/schedules/report/nightly/backfills/2", backfill(running=1))
    said = interrupted(api, *BACKFILL).splitlines()
    assert said[-2:] == [
        "shardmill: the backfill continues; to stop it, run: shardmill schedule stop report nightly 2",
        "shardmill: to see its progress, run: shardmill schedule backfills report nightly",
    ]
    assert {each.method for each in api.seen[1:]} <= {"GET"}


def on_a_terminal(
    *arguments: str, env: dict[str, str], watch: Callable[[bytes], None] = lambda seen: None, typed: str = ""
) -> tuple[int, str]:
    """Runs a command with a terminal for everything; gives its exit code and what was seen."""
    terminal, other = pty.openpty()
    os.write(terminal, typed.encode())
    with child_process([*COMMAND, *arguments], stdin=other, stdout=other, stderr=other, env=env) as process:
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
                watch(seen)
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


def test_on_a_terminal_a_backfill_has_a_live_bar(api: FakeApi) -> None:
    looks = [backfill(success=done, running=1, waiting=4 - done) for done in range(5)]
    api.on("POST", "/v1/schedules/report/nightly:backfill", Reply(looks[0], 202))
    end = backfill("DONE", success=4, failed=1)
    api.on("GET", "/v1/schedules/report/nightly/backfills/2", *looks, end)
    with api.served() as url:
        code, seen = on_a_terminal(*BACKFILL, env=environment(url, TERM="xterm-256color", COLUMNS="100"))
    assert code == 4
    assert "━" in seen
    assert "5/5" in seen
    assert "\x1b[31m1 failed" in seen
    assert "shardmill: backfill 2" not in seen


def test_on_a_terminal_one_is_asked_and_what_is_done_to_many_has_a_live_bar(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(*(job("RUNNING", trigger=f"t{number}") for number in range(3))))
    for number in range(2):
        api.on("POST", f"/v1/jobs/report/t{number}:kill", job("KILLED", trigger=f"t{number}"))
    refusal = "the Job report/t2 has ended as SUCCESS"
    api.on("POST", "/v1/jobs/report/t2:kill", problem(409, "job-ended", refusal))
    with api.served() as url:
        env = environment(url, TERM="xterm-256color", COLUMNS="100")
        code, seen = on_a_terminal("kill", "--job", "report", env=env, typed="n\n")
        assert (code, "kill 3 jobs (3 of report)? [y/N]" in seen) == (1, True)
        assert {each.method for each in api.seen} == {"GET"}
        code, seen = on_a_terminal("kill", "--job", "report", env=env, typed="y\n")
    assert code == 1
    assert "━" in seen
    assert "3/3" in seen
    assert "\x1b[31m1 refused" in seen
    assert f"report/t2 refused: {refusal}" in seen
    assert "shardmill: kill:" not in seen


def test_on_a_terminal_running_tasks_show_how_far_they_are(api: FakeApi) -> None:
    running = job("RUNNING", step("main", total=4))
    told = task(2, "RUNNING", progress={"percent": 42, "message": "copying"})
    api.on("GET", f"{JOB}/steps/main/tasks", page(told))
    api.on("GET", JOB, *[running] * 5, job("SUCCESS", step("main", "SUCCESS", 4, 4)))
    with api.served() as url:
        code, seen = on_a_terminal("watch", "report", "t1", env=environment(url, TERM="xterm", COLUMNS="100"))
    assert code == 0
    assert "task 2" in seen
    assert "42% copying" in seen
    asked = [each.query for each in api.seen if each.path.endswith("/tasks")]
    assert {"state": "RUNNING", "limit": "10"} in asked


WORKER = {
    "id": "w",
    "name": "w1",
    "groups": ["default"],
    "session": 1,
    "heartbeatSeconds": 20,
    "createTime": NOW,
    "updateTime": NOW,
}


def with_work(api: FakeApi, *leases: Lease) -> None:
    """An API that has these tasks for one worker, and then no more."""
    items = [lease.model_dump(mode="json") | {"environ": {}} for lease in leases]
    reported = [{"taskId": each.task_id, "attempt": 1, "status": "ok"} for each in leases]
    api.on("POST", "/v1/workers", Reply(WORKER, 201))
    api.on("POST", "/v1/workers/w:heartbeat", {"status": 3, "heartbeatSeconds": 20})
    api.on("POST", "/v1/work:lease", *({"items": [item]} for item in items), {"items": []})
    api.on("POST", "/v1/work:report", *({"items": [one]} for one in reported))


def results(api: FakeApi) -> list[dict[str, Any]]:
    return [one for each in api.seen if each.path == "/v1/work:report" for one in each.document["results"]]


def test_a_worker_does_what_there_is_and_says_it_in_json(api: FakeApi, tmp_path: Path) -> None:
    with_work(api, a_lease(content="exit 3"), a_lease("noop", rank=8))
    with api.served() as url:
        options = ("--once", "--json", "--log-format", "json", "--metrics-port", "0", "--domain", "d")
        alone = {"TMPDIR": str(tmp_path)}  # else it clears what killed workers of other tests left
        found = run("worker", *options, env=environment(url) | alone)
    assert found.returncode == 0
    assert [(one["outcome"], one.get("exitCode")) for one in results(api)] == [("failed", 3), ("success", 0)]
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(one["event"], one["index"]) for one in told] == [
        ("started", 7),
        ("ended", 7),
        ("started", 8),
        ("ended", 8),
    ]
    logged = [json.loads(line) for line in found.stderr.splitlines()]
    assert [one["event"] for one in logged] == ["metrics", "registered", "ended", "offline"]
    assert logged[0]["url"].startswith("http://127.0.0.1:")
    assert (logged[2]["attempt"], logged[2]["reason"]) == (1, "exit code 3")
    registration = api.seen[0].document
    assert (registration["domain"], registration["slots"]) == ("d", 1)
    assert registration["user"] == pwd.getpwuid(os.geteuid()).pw_name
    assert api.seen[-1].document == {"session": 1, "work": [], "offline": True}


def test_a_worker_stops_after_so_many_tasks(api: FakeApi) -> None:
    with_work(api, *(a_lease(content="echo x", rank=rank) for rank in range(3)))
    with api.served() as url:
        found = run("worker", "--max-tasks", "2", env=environment(url))
    assert found.returncode == 0
    assert [one["stdout"] for one in results(api)] == ["x\n", "x\n"]
    assert "registered worker=w1" in found.stderr


def test_a_worker_that_lacks_something_rejects_the_task(api: FakeApi) -> None:
    with_work(api, a_lease(content="echo x"))
    with api.served() as url:
        found = run("worker", "--once", "--min-disk", "999999999999", env=environment(url))
    assert found.returncode == 0
    [result] = results(api)
    assert result["outcome"] == "rejected"
    assert "--min-disk" in result["reason"]


def test_programs_can_be_named_in_the_environment(api: FakeApi, tmp_path: Path) -> None:
    java = tmp_path / "my-java"
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o755)
    with_work(api, a_lease("java", "app.jar --x 1"))
    with api.served() as url:
        assert run("worker", "--once", env=environment(url, SHARDMILL_JAVA=str(java))).returncode == 0
    assert [(one["outcome"], one["stdout"]) for one in results(api)] == [("success", "-jar app.jar --x 1\n")]


def test_on_a_terminal_a_worker_shows_what_it_runs(api: FakeApi, tmp_path: Path) -> None:
    seen_it = tmp_path / "seen"
    content = f"echo 42 copying > $SHARDMILL_PROGRESS; until [ -e {seen_it} ]; do sleep 0.05; done"
    with_work(api, a_lease(content=content))

    def watch(seen: bytes) -> None:
        if b"42% copying" in seen:
            seen_it.touch()

    with api.served() as url:
        env = environment(url, TERM="xterm", COLUMNS="120")
        code, seen = on_a_terminal("worker", "--once", env=env, watch=watch)
    assert code == 0
    assert "balance/t1 main 7" in seen
    assert "42% copying" in seen
    assert "registered worker=w1" in seen


def test_counters_that_cannot_be_served_are_said(api: FakeApi) -> None:
    with_work(api)
    with api.served() as url:
        port = url.rpartition(":")[2]
        found = run("worker", "--once", "--metrics-port", port, env=environment(url))
    assert found.returncode == 1
    assert found.stderr.startswith(f"shardmill: cannot serve metrics on port {port}: ")
    assert api.seen == []


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
