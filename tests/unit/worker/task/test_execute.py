"""Execution of one task: real programs in real processes."""

import os
import signal
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Lease, Result
from shardmill.worker.logs import LogsNotStored, Part, Stream
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.task.programs import Programs
from support.fakes.leases import JOB, a_command, a_lease
from support.processes import gone


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "work", kill_seconds=0.3)


def run(lease: Lease, runtime: Runtime, **more: Any) -> Result:
    return execute(lease, runtime, threading.Event(), **more)


def pids_in(folder: Path) -> list[int]:
    return [int(text) for text in (folder / "pids").read_text().split()]


# Outcome


@pytest.mark.parametrize(
    ("content", "outcome", "exit_code", "reason"),
    [
        ("exit 0", "success", 0, None),
        ("exit 3", "failed", 3, "exit code 3"),
        ("exit 42", "failed-permanent", 42, "exit code 42"),
        ("exit 75", "rejected", 75, "exit code 75: rejected by the program"),
        ("kill -9 $$", "failed", -9, "killed by signal 9"),
        ("no-such-program-anywhere", "failed", 127, "exit code 127"),
    ],
)
def test_the_exit_code_decides_the_outcome(
    runtime: Runtime, content: str, outcome: str, exit_code: int, reason: str | None
) -> None:
    result = run(a_lease(content=content), runtime)
    assert (result.outcome, result.exit_code, result.reason) == (outcome, exit_code, reason)
    assert (result.task_id, result.attempt, result.receipt) == (f"{JOB}_0_7", 1, "receipt")
    assert result.start_time is not None
    assert result.end_time is not None
    assert result.start_time <= result.end_time


def test_a_noop_succeeds_without_a_process_or_a_folder(runtime: Runtime) -> None:
    result = run(a_lease("noop"), runtime)
    assert result.outcome == "success"
    assert not runtime.root.exists()


@pytest.mark.parametrize(
    ("lease", "reason"),
    [
        (a_lease("shell", {"a": 1}), "the content of a shell task must be a string"),
        (a_lease("shell"), "the content of a shell task must be a string"),
        (a_lease("python", "report"), "the content of a python task must be module:function, not 'report'"),
        (a_lease("command"), "a task of type command needs a command with a name"),
        (
            a_command("echo", args="'open"),
            "cannot split the args of command 'echo': No closing quotation",
        ),
    ],
)
def test_an_invalid_task_fails_permanently(runtime: Runtime, lease: Lease, reason: str) -> None:
    result = run(lease, runtime)
    assert (result.outcome, result.reason) == ("failed-permanent", reason)


def test_a_missing_program_fails_the_task(runtime: Runtime) -> None:
    result = run(a_command("no-such-program-anywhere"), runtime)
    assert (result.outcome, result.exit_code) == ("failed", None)
    assert result.reason == "program 'no-such-program-anywhere' not found"


def test_a_program_that_is_not_executable_fails_the_task(runtime: Runtime, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo hi")
    result = run(a_command(str(plain)), runtime)
    assert (result.outcome, result.reason) == ("failed", f"program '{plain}' is not executable")


def test_an_invalid_environment_fails_the_task_with_a_reason(runtime: Runtime) -> None:
    result = run(a_lease(content="exit 0", environ={"A": "x\0y"}), runtime)
    assert result.outcome == "failed"
    assert result.reason is not None
    assert result.reason.startswith("cannot start program '/bin/sh': ")


def test_a_work_folder_that_cannot_be_created_fails_the_task_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run(a_lease(content="exit 0"), Runtime(tmp_path / "file" / "work"))
    assert result.outcome == "failed"
    assert result.reason is not None
    assert result.reason.startswith("the worker failed to run the task: ")


# The command


def test_args_are_split_into_words_without_a_shell(runtime: Runtime) -> None:
    result = run(a_command("printf", args="'<%s>' 'a b' $HOME \"*\" ; echo no"), runtime)
    assert result.stdout == "<a b><$HOME><*><;><echo><no>"


def test_args_as_an_array_are_passed_unchanged(runtime: Runtime) -> None:
    result = run(a_command("printf", argsArray=["<%s>", "a b", "'c'", ""]), runtime)
    assert result.stdout == "<a b><'c'><>"


def test_the_shell_is_configurable(runtime: Runtime, tmp_path: Path) -> None:
    shell = tmp_path / "my-shell"
    shell.write_text('#!/bin/sh\necho "mine: $1 $2"\n')
    shell.chmod(shell.stat().st_mode | stat.S_IXUSR)
    result = run(a_lease(content="whatever"), replace(runtime, programs=Programs(shell=str(shell))))
    assert result.stdout == "mine: -c whatever\n"


# Environment and work folder


def test_the_environment_has_an_allow_list_of_inherited_variables_and_those_of_the_task(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDMILL_TOKEN", "the worker's own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the worker's own")
    monkeypatch.setenv("LANG", "C.UTF-8")
    result = run(a_lease(content="env", environ={"SHARDMILL_SHARD_INDEX": "7", "LANG": "de_DE"}), runtime)
    lines = dict(line.split("=", 1) for line in (result.stdout or "").splitlines())
    assert lines["SHARDMILL_SHARD_INDEX"] == "7"
    assert lines["LANG"] == "de_DE"
    assert lines["PATH"] == os.environ["PATH"]
    assert "own" not in (result.stdout or "")
    assert not any(name.startswith("AWS_") for name in lines)


def test_stdin_is_empty(runtime: Runtime) -> None:
    assert run(a_lease(content="cat; echo done"), runtime).stdout == "done\n"


def test_each_task_gets_its_own_empty_folder_which_is_removed_afterwards(runtime: Runtime) -> None:
    lease = a_lease(content="pwd; ls -A | wc -l; mkdir -p a/b; touch a/b/c; chmod 000 a/b; chmod 000 a")
    first, second = run(lease, runtime), run(lease, runtime)
    here, files = (first.stdout or "").split()
    assert Path(here).is_relative_to(runtime.root)
    assert files == "0"
    assert here not in (second.stdout or "")
    assert list(runtime.root.iterdir()) == []


def test_symlinks_out_of_the_folder_are_removed_but_not_followed(runtime: Runtime, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    run(a_lease(content=f"ln -s {outside} there; mkdir x; chmod 000 x"), runtime)
    assert (outside / "kept").read_text() == "kept"
    assert list(runtime.root.iterdir()) == []


def test_the_folder_is_kept_on_request(runtime: Runtime) -> None:
    run(a_lease(content="echo made > here; echo said"), replace(runtime, keep=True))
    (folder,) = runtime.root.iterdir()
    assert (folder / "work" / "here").read_text() == "made\n"
    assert (folder / "stdout").read_text() == "said\n"


# Timeouts and stops


def test_all_processes_of_a_timed_out_task_are_ended(runtime: Runtime, tmp_path: Path) -> None:
    content = f"sleep 60 & echo $$ $! > {tmp_path}/pids; wait"
    result = run(a_lease(content=content, timeoutSeconds=1), runtime)
    assert (result.outcome, result.reason) == ("failed", "timed-out")
    assert all(gone(pid) for pid in pids_in(tmp_path))


def test_a_group_that_ignores_sigterm_is_killed(runtime: Runtime, tmp_path: Path) -> None:
    content = f"trap '' TERM; sh -c 'echo $$ >> {tmp_path}/pids; while :; do sleep 0.05; done' & wait"
    result = run(a_lease(content=content), runtime, limit_seconds=0.3)
    assert (result.outcome, result.reason) == ("failed", "timed-out")
    assert result.exit_code == -signal.SIGKILL
    assert all(gone(pid) for pid in pids_in(tmp_path))


def test_a_child_that_outlives_its_terminated_parent_is_killed_too(runtime: Runtime, tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; echo $$ > {tmp_path}/pids; while :; do sleep 0.05; done"
    result = run(a_lease(content=f'sh -c "{stubborn}" & wait', environ={}), runtime, limit_seconds=0.3)
    assert result.exit_code == -signal.SIGTERM
    assert all(gone(pid) for pid in pids_in(tmp_path))


def test_background_processes_end_with_their_task(runtime: Runtime, tmp_path: Path) -> None:
    result = run(a_lease(content=f"sleep 60 & echo $! > {tmp_path}/pids; exit 0"), runtime)
    assert result.outcome == "success"
    assert all(gone(pid) for pid in pids_in(tmp_path))


def test_sigterm_lets_a_program_clean_up(runtime: Runtime) -> None:
    content = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done"
    result = run(a_lease(content=content), replace(runtime, kill_seconds=5.0), limit_seconds=0.2)
    assert (result.reason, result.stdout) == ("timed-out", "cleaned\n")


def test_a_stopped_task_is_discarded(runtime: Runtime) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    result = execute(a_lease(content="sleep 60"), runtime, stop)
    assert (result.outcome, result.reason) == ("failed", "discarded")


@pytest.mark.parametrize("type", ["noop", "shell"])
def test_a_task_stopped_before_its_start_does_not_run(runtime: Runtime, tmp_path: Path, type: str) -> None:
    stop = threading.Event()
    stop.set()
    result = execute(a_lease(type, content=f"touch {tmp_path}/ran"), runtime, stop)
    assert (result.outcome, result.reason) == ("failed", "discarded")
    assert not (tmp_path / "ran").exists()


# Python


def test_a_python_function_gets_the_task(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "report.py").write_text(
        "def main(task):\n    print(task['sharding'], task['params'], task['pack'], task['attempt'])\n"
    )
    environ = {
        "SHARDMILL_SHARD_INDEX": "7",
        "SHARDMILL_SHARD_TOTAL": "12",
        "SHARDMILL_ATTEMPT": "2",
        "SHARDMILL_PACK_START": "10",
        "SHARDMILL_PACK_END": "19",
        "SHARDMILL_PARAMS": '{"day": "x"}',
    }
    runtime = replace(runtime, programs=Programs(python_path=(str(tmp_path),)))
    result = run(a_lease("python", "report:main", environ=environ), runtime)
    assert result.stderr is None
    assert result.stdout == "{'index': 7, 'total': 12} {'day': 'x'} {'start': 10, 'end': 19} 2\n"
    assert result.outcome == "success"


@pytest.mark.parametrize(
    ("body", "outcome", "exit_code"),
    [
        ("def main():\n    pass", "success", 0),
        ("def main():\n    return 42", "failed-permanent", 42),
        ("def main():\n    return 'text'", "success", 0),
        ("def main():\n    return True", "success", 0),
        ("def main(*, key=1):\n    return 3", "failed", 3),
        ("def main():\n    raise SystemExit(5)", "failed", 5),
        ("def main():\n    raise ValueError('no such day')", "failed", 1),
        ("class main:\n    pass", "success", 0),
    ],
)
def test_the_return_value_or_exception_of_a_python_function_decides_the_outcome(
    runtime: Runtime, tmp_path: Path, body: str, outcome: str, exit_code: int
) -> None:
    (tmp_path / "job.py").write_text(body)
    runtime = replace(runtime, programs=Programs(python_path=(str(tmp_path),)))
    result = run(a_lease("python", "job:main"), runtime)
    assert (result.outcome, result.exit_code) == (outcome, exit_code)
    if "ValueError" in body:
        assert "no such day" in (result.stderr or "")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("nowhere.to.be:found", "module 'nowhere' not found on this worker"),
        ("json:nothing", "module 'json' has no 'nothing'"),
        ("sys:version", "'sys:version' is not a function"),
    ],
)
def test_a_missing_python_function_fails_the_task(runtime: Runtime, content: str, error: str) -> None:
    result = run(a_lease("python", content), runtime)
    assert (result.outcome, result.exit_code) == ("failed", 2)
    assert result.stderr == f"{error}\n"


def test_a_python_task_cannot_import_modules_of_the_worker(runtime: Runtime) -> None:
    result = run(a_lease("python", "execute:execute"), runtime)
    assert result.stderr == "module 'execute' not found on this worker\n"


# Logs


class LogStore:
    """A log store in memory."""

    def __init__(self, fail: bool = False) -> None:
        self.streams: dict[str, int] = {}
        self.fail = fail

    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        if self.fail:
            raise LogsNotStored("S3 is unavailable")
        self.streams[stream] = sum(len(data) for _, data in part)


def test_short_logs_are_only_in_the_result(runtime: Runtime) -> None:
    store = LogStore()
    result = run(a_lease(content="printf '%4096s' x; echo err >&2"), replace(runtime, logs=store))
    assert result.stdout == "x".rjust(4096)
    assert result.stderr == "err\n"
    assert store.streams == {}


def test_a_long_log_is_uploaded_and_its_tail_is_in_the_result(runtime: Runtime) -> None:
    store = LogStore()
    content = "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo end"
    result = run(a_lease(content=content), replace(runtime, logs=store))
    assert result.stdout == "a" * 4091 + "\nend\n"
    assert store.streams == {"stdout": 3_000_005}


def test_a_failed_log_upload_does_not_change_the_outcome(runtime: Runtime) -> None:
    result = run(a_lease(content="printf '%5000s' x"), replace(runtime, logs=LogStore(fail=True)))
    assert result.outcome == "success"


def test_bytes_that_are_not_utf_8_are_replaced(runtime: Runtime) -> None:
    result = run(a_lease(content="printf 'a\\377b\\303'"), runtime)
    assert result.stdout == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


def test_empty_logs_are_none(runtime: Runtime) -> None:
    result = run(a_lease(content=":"), runtime)
    assert (result.stdout, result.stderr) == (None, None)
