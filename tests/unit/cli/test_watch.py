"""--watch: lists that update until Ctrl-C."""

import json
import signal
import subprocess
from typing import Any

import pytest
from typer.main import get_command

from shardmill.cli import watch
from shardmill.cli.app import app
from support.command_process import COMMAND, environment, run_on_terminal
from support.fakes.api import FakeApi, Reply, Run, group, job, listed, page, worker
from support.processes import child_process
from unit.cli.test_app import all_commands

CLEAR = "\x1b[H\x1b[J"


@pytest.fixture
def three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after three rounds."""
    left = [0.0, 0.0]

    def sleep(seconds: float) -> None:
        assert seconds == watch.INTERVAL_SECONDS
        if not left:
            raise KeyboardInterrupt
        left.pop()

    monkeypatch.setattr("shardmill.cli.watch.time.sleep", sleep)


@pytest.mark.usefixtures("three_rounds")
def test_a_changed_list_is_printed_again(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(job("RUNNING")), page(job("RUNNING")), page(job("SUCCESS")))
    found = run("jobs", "--watch")
    assert found.exit_code == 130
    first, second = found.stdout.split("\n\n")
    assert "RUNNING" in first
    assert "SUCCESS" in second
    assert len(api.requests) == 3


@pytest.mark.usefixtures("three_rounds")
def test_json_has_one_line_for_each_change(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(), page(job("RUNNING")), page(job("SUCCESS")))
    lines = run("jobs", "--watch", "--json").stdout.splitlines()
    assert [[each["state"] for each in json.loads(line)] for line in lines] == [[], ["RUNNING"], ["SUCCESS"]]


@pytest.mark.usefixtures("three_rounds")
def test_watch_waits_for_an_api_that_does_not_answer(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shardmill.client import client
    from shardmill.client.errors import Unreachable

    answers = [[], Unreachable("cannot reach Shardmill"), []]

    def groups(_: client.Client) -> list[object]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(client.Client, "groups", groups)
    found = run("groups", "--watch")
    assert found.stderr == "shardmill: cannot reach Shardmill; trying again\n"
    assert found.stdout.count("GROUP") == 2


@pytest.mark.usefixtures("three_rounds")
@pytest.mark.parametrize(
    ("command", "path", "item"),
    [
        ("definitions", "/v1/definitions", listed()),
        ("groups", "/v1/groups", group()),
        ("workers", "/v1/workers", worker()),
    ],
)
def test_other_lists_are_watched(api: FakeApi, run: Run, command: str, path: str, item: object) -> None:
    api.on("GET", path, page(item))
    assert len(run(command, "--watch").stdout.splitlines()) == 2
    assert api.request_lines == [f"GET {path}"] * 3


@pytest.mark.usefixtures("three_rounds")
def test_files_are_listed_without_their_addresses(api: FakeApi, run: Run) -> None:
    file = {"name": "a.csv", "stepName": "main", "index": 0, "size": 3, "sha256": "0" * 64, "url": "secret"}
    api.on("GET", "/v1/jobs/report/t1/files", page(), page(file), page(file))
    assert len(run("files", "report", "t1", "--watch").stdout.splitlines()) == 4
    lines = run("files", "report", "t1", "--watch", "--json").stdout.splitlines()
    assert [each["name"] for each in json.loads(lines[-1])] == ["a.csv"]
    assert "secret" not in lines[-1]


def list_commands() -> list[str]:
    """The commands whose summary says that they list something, not those that only group commands."""
    root = get_command(app)  # once: the conversion of all commands takes 30 ms
    return [name for name in all_commands() if _lists(root, name)]


def _lists(root: Any, name: str) -> bool:
    command = root
    for part in name.split():
        command = command.commands[part]
    return (command.help or "").startswith("List ") and getattr(command, "invoke_without_command", True)


@pytest.mark.parametrize("name", list_commands())
def test_every_list_can_be_watched(name: str, run: Run) -> None:
    assert "--watch" in run(*name.split(), "--help").stdout


@pytest.mark.usefixtures("three_rounds")
def test_other_errors_end_the_watch(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(), Reply({"detail": "no"}, 403))
    assert run("jobs", "--watch").exit_code == 1


def test_on_a_terminal_a_new_list_replaces_the_old_one(api: FakeApi) -> None:
    pages = [page(*(job("RUNNING", trigger=f"t{number}") for number in range(50))), page(job("SUCCESS"))]
    api.on("GET", "/v1/jobs", *pages)
    with api.served() as url:
        env = environment(url, TERM="xterm", COLUMNS="80", LINES="20")

        def interrupt(seen: bytes) -> None:
            if b"SUCCESS" in seen:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_on_terminal("jobs", "--watch", env=env, watch=interrupt)
    assert len(api.requests) == 2


def test_ctrl_c_ends_the_watch_silently(api: FakeApi) -> None:
    api.on("GET", "/v1/jobs", page(job("RUNNING")))
    with (
        api.served() as url,
        child_process(
            [*COMMAND, "jobs", "--watch"],
            env=environment(url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout
        assert "TRIGGER" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=50)
    assert (process.returncode, messages) == (130, "")
