"""The command line as a process: streams, signals, terminals and exit codes."""

import json
import os
import resource
import signal
import subprocess
import sys

from support.command_process import COMMAND, environment, run_on_terminal, run_process
from support.fakes.api import FakeApi, Reply, backfill, job, page, problem, step, task
from support.processes import child_process

JOB = "/v1/jobs/report/t1"


def _cpu_seconds(*arguments: str) -> float:
    """Return the CPU time of a command, which depends little on the load of the machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run_process(*arguments).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def interrupted(api: FakeApi, *arguments: str) -> str:
    """Interrupt a waiting command after its first message; return its other messages."""
    with (
        api.served() as url,
        child_process(
            [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment(url)
        ) as process,
    ):
        assert process.stderr
        assert "RUNNING" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest: str = process.communicate(timeout=50)[1]
        assert process.returncode == 130
    assert "Traceback" not in rest
    return rest


BACKFILL = ["schedule", "backfill", "report", "nightly", "--time", "2026-01-01", "--wait"]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['shardmill', '--help']\nfrom shardmill.cli.main import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    heavy = {"pydantic", "httpx", "rich", "yaml", "boto3", "shardmill.client", "shardmill.local"}
    assert not heavy & set(found.stderr.split())
    assert min(_cpu_seconds("--help") for _ in range(3)) < 0.4


def test_no_command_shows_the_help() -> None:
    found = run_process()
    assert found.returncode == 2
    assert "Run and control jobs:" in found.stdout + found.stderr


def test_version_is_printed() -> None:
    assert run_process("--version").stdout.strip()


def test_each_outcome_has_its_exit_code(api: FakeApi) -> None:
    api.on("GET", JOB, job("FAILED"))
    with api.served() as url:
        env = environment(url)
        codes = {
            arguments: run_process(*arguments.split(), env=env).returncode
            for arguments in ("job report t1", "job report", "job missing t1", "watch report t1")
        }
        api.on("GET", JOB, job("RUNNING"))
        codes["timed out"] = run_process("watch", "report", "t1", "--timeout", "0", env=env).returncode
    assert list(codes.values()) == [0, 2, 3, 4, 5]


def test_closed_pipe_is_silent(api: FakeApi) -> None:
    api.on("GET", f"{JOB}/steps/main/tasks", page(*(task(index) for index in range(200)), cursor="more"))
    for more in ("", "--json"):
        with api.served() as url:
            line = f"{sys.executable} -m shardmill tasks report t1 main {more} | head -2"
            found = subprocess.run(
                ["sh", "-c", line],
                capture_output=True,
                text=True,
                env=environment(url),
                timeout=50,
                check=True,
            )
        assert len(found.stdout.splitlines()) == 2
        assert found.stderr == ""


def test_pipe_closed_from_the_start_is_silent(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(job()))
    with api.served() as url:
        reading, writing = os.pipe()
        os.close(reading)
        found = subprocess.run(
            [*COMMAND, "jobs"],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(url),
            timeout=50,
            check=False,
        )
        os.close(writing)
    assert (found.returncode, found.stderr) == (141, b"")


def test_ascii_output_escapes_other_characters(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(job(submitUser="zoë")))
    with api.served() as url:
        env = environment(url, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert "zo\\xeb" in run_process("jobs", env=env).stdout


def test_ctrl_c_while_waiting_says_that_the_job_continues(api: FakeApi) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    messages = interrupted(api, "watch", "report", "t1")
    assert "the job continues; to keep watching it, run: shardmill watch report t1" in messages


def test_ctrl_c_leaves_a_backfill_running_and_says_how_to_stop_it(api: FakeApi) -> None:
    api.on("POST", "/v1/schedules/report/nightly:backfill", Reply(backfill(running=1), 202))
    api.on("GET", "/v1/schedules/report/nightly/backfills/2", backfill(running=1))
    messages = interrupted(api, *BACKFILL).splitlines()
    assert messages[-2:] == [
        "shardmill: the backfill continues; to stop it, run: shardmill schedule stop report nightly 2",
        "shardmill: to see its progress, run: shardmill schedule backfills report nightly",
    ]
    assert {each.method for each in api.requests[1:]} <= {"GET"}


def test_terminal_shows_live_bars_and_colours(api: FakeApi) -> None:
    running = [
        job("RUNNING", step("generate", total=12, done=done), step("merge", "WAITING")) for done in (0, 5, 9)
    ]
    ended = job("SUCCESS", step("generate", "SUCCESS", 12, 12), step("merge", "SUCCESS", 1, 1))
    with api.served() as url:
        env = environment(url, TERM="xterm-256color", COLUMNS="100")
        api.on("GET", JOB, *running, ended)
        code, screen = run_on_terminal("watch", "report", "t1", env=env)
        assert code == 0
        assert "12/12" in screen
        assert "━" in screen
        assert "\x1b[32mSUCCESS" in screen
        api.on("GET", JOB, *running, ended)
        code, screen = run_on_terminal("watch", "report", "t1", env={**env, "NO_COLOR": "1"})
        assert code == 0
        assert "12/12" in screen
        assert "\x1b[3" not in screen


def test_terminal_shows_a_live_bar_for_a_backfill(api: FakeApi) -> None:
    states = [backfill(success=done, running=1, waiting=4 - done) for done in range(5)]
    api.on("POST", "/v1/schedules/report/nightly:backfill", Reply(states[0], 202))
    end = backfill("DONE", success=4, failed=1)
    api.on("GET", "/v1/schedules/report/nightly/backfills/2", *states, end)
    with api.served() as url:
        code, screen = run_on_terminal(*BACKFILL, env=environment(url, TERM="xterm-256color", COLUMNS="100"))
    assert code == 4
    assert "━" in screen
    assert "5/5" in screen
    assert "\x1b[31m1 failed" in screen
    assert "shardmill: backfill 2" not in screen


def test_terminal_asks_for_confirmation_and_shows_a_live_bar_for_many_jobs(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(*(job("RUNNING", trigger=f"t{number}") for number in range(3))))
    for number in range(2):
        api.on("POST", f"/v1/jobs/report/t{number}:kill", job("KILLED", trigger=f"t{number}"))
    refusal = "the Job report/t2 has ended as SUCCESS"
    api.on("POST", "/v1/jobs/report/t2:kill", problem(409, "job-ended", refusal))
    with api.served() as url:
        env = environment(url, TERM="xterm-256color", COLUMNS="100")
        code, screen = run_on_terminal("kill", "--job", "report", env=env, typed="n\n")
        assert (code, "kill 3 jobs (3 of report)? [y/N]" in screen) == (1, True)
        assert {each.method for each in api.requests} == {"GET"}
        code, screen = run_on_terminal("kill", "--job", "report", env=env, typed="y\n")
    assert code == 1
    assert "━" in screen
    assert "3/3" in screen
    assert "\x1b[31m1 refused" in screen
    assert f"report/t2 refused: {refusal}" in screen
    assert "shardmill: kill:" not in screen


def test_terminal_shows_the_progress_of_running_tasks(api: FakeApi) -> None:
    running = job("RUNNING", step("main", total=4))
    expected = task(2, "RUNNING", progress={"percent": 42, "message": "copying"})
    api.on("GET", f"{JOB}/steps/main/tasks", page(expected))
    api.on("GET", JOB, *[running] * 5, job("SUCCESS", step("main", "SUCCESS", 4, 4)))
    with api.served() as url:
        code, screen = run_on_terminal(
            "watch", "report", "t1", env=environment(url, TERM="xterm", COLUMNS="100")
        )
    assert code == 0
    assert "task 2" in screen
    assert "42% copying" in screen
    queries = [each.query for each in api.requests if each.path.endswith("/tasks")]
    assert {"state": "RUNNING", "limit": "10"} in queries


def test_json_output_has_no_colours(api: FakeApi) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    with api.served() as url:
        found = run_process("job", "report", "t1", "--json", env=environment(url, FORCE_COLOR="1"))
    assert json.loads(found.stdout)["jobName"] == "report"
    assert found.stderr == ""
