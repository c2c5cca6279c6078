"""Completion in the shell: commands, and names that are read from the API."""

import subprocess
import time
from pathlib import Path

import pytest

from support.command_process import COMMAND, environment
from support.fakes.api import FakeApi, Reply, Run, group, job, listed, offline, page, schedule, step, worker


def completed(url: str, *words: str) -> list[str]:
    """What bash suggests for the last of these words."""
    env = environment(
        url,
        _SHARDMILL_COMPLETE="complete_bash",
        COMP_WORDS=" ".join(("shardmill", *words)),
        COMP_CWORD=str(len(words)),
    )
    program = "import sys; sys.argv[0] = 'shardmill'; from shardmill.cli.main import main; main()"
    found = subprocess.run(
        [COMMAND[0], "-c", program], env=env, capture_output=True, text=True, timeout=50, check=False
    )
    assert found.stderr == ""
    return found.stdout.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("definit",), ["definitions"]),
        (("job", "r"), ["report", "reconcile"]),
        (("job", "report", ""), ["t1", "t2"]),
        (("tasks", "report", "t1", "m"), ["main", "merge"]),
        (("schedule", "show", "report", "n"), ["nightly"]),
        (("groups", "show", ""), ["g"]),
        (("workers", "drain", ""), ["w1"]),
        (("kill", "--job", "re"), ["report", "reconcile"]),
        (("worker", "--group", ""), ["g"]),
        (("change", "report", "t1", "--group", ""), ["g"]),
        (("rerun", "report", "t1", "--step", "m"), ["main", "merge"]),
        (("recompute", "report", "t1", "o"), ["other"]),
        (("files", "report", "t1", "--step", "o"), ["other"]),
    ],
)
def test_names_are_read_from_the_api(api: FakeApi, words: tuple[str, ...], names: list[str]) -> None:
    api.on("GET", "/v1/definitions", page(listed("report"), listed("reconcile"), listed("other")))
    api.on("GET", "/v1/jobs", page(job(), job(trigger="t2")))
    api.on("GET", "/v1/jobs/report/t1", job("RUNNING", step("main"), step("merge"), step("other")))
    api.on("GET", "/v1/schedules/report", page(schedule()))
    api.on("GET", "/v1/groups", page(group()))
    api.on("GET", "/v1/workers", page(worker()))
    with api.served() as url:
        assert completed(url, *words) == names
    assert len(api.requests) <= 1


def test_completion_is_silent_without_an_answer(api: FakeApi) -> None:
    api.on("GET", "/v1/definitions", Reply(b"<html>", 200))
    with api.served() as url:
        assert completed(url, "job", "") == []
    assert completed(url, "job", "") == []
    assert completed("", "job", "") == []


def test_completion_waits_at_most_a_second(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace
    from typing import Any, cast

    from shardmill.cli import complete

    def slow(_: object) -> Reply:
        time.sleep(0.5)
        return Reply(page(listed()))

    monkeypatch.setattr(complete, "TIMEOUT_SECONDS", 0.05)
    api.on("GET", "/v1/definitions", slow)
    with api.served() as url:
        ctx = cast("Any", SimpleNamespace(params={"url": url, "token": "x"}))
        assert complete.definitions(ctx, "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_command(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    assert f"_SHARDMILL_COMPLETE=complete_{shell}" in script


def test_install_changes_the_start_up_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = offline("completion", "bash", "--install")
    assert found.exit_code == 0
    assert "shardmill.sh" in (tmp_path / ".bashrc").read_text()
    subprocess.run(
        ["bash", "-n", str(tmp_path / ".bash_completions" / "shardmill.sh")], check=True, timeout=30
    )
