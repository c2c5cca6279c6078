"""top: the full screen in a pseudoterminal, once in a pipe, and JSON."""

import json

import pytest

from support.command_process import environment, run_on_terminal
from support.fakes.api import FakeApi, Run, job, output_of, page, step, worker
from support.fakes.overview import overview

RUNNING = job("RUNNING", step("main", total=12, done=5))
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def busy(api: FakeApi) -> FakeApi:
    api.on("GET", "/v1/now", overview([RUNNING]))
    api.on(
        "GET", "/v1/workers", page(worker(slots=4, remainTasks=2, totalCompleted=0, totalFailed=0, status=3))
    )
    api.on("GET", "/v1/jobs/report/t1", RUNNING)
    return api


def test_top_prints_once_in_a_pipe(busy: FakeApi, run: Run) -> None:
    text = output_of(run("top"))
    assert "RUNNING  report" in text
    assert "w1" in text
    assert "q quit" not in text
    assert len(busy.requests) == 2


def test_json_has_the_overview_and_the_workers(busy: FakeApi, run: Run) -> None:
    found = json.loads(output_of(run("top", "--json")))
    assert found["now"]["groups"][0]["name"] == "default"
    assert found["workers"][0]["name"] == "w1"
    assert len(busy.requests) == 2


def test_an_api_that_does_not_answer_exits_3(run: Run) -> None:
    assert run("top").exit_code == 3


def test_q_leaves_the_full_screen(busy: FakeApi) -> None:
    """The key is typed before the first drawing: it waits in the terminal."""
    with busy.served() as url:
        env = environment(url, TERM="xterm", COLUMNS="80", LINES="24")
        code, screen = run_on_terminal("top", env=env, typed="r", then=("5 of 12 tasks", "q"))
    assert code == 0
    assert screen.count(ENTER) == screen.count(LEAVE) == 1
    assert "w1" in screen
    assert screen.rstrip().endswith(LEAVE)


def test_a_terminal_that_cannot_move_the_cursor_gets_plain_text(busy: FakeApi) -> None:
    with busy.served() as url:
        code, screen = run_on_terminal("top", env=environment(url, TERM="dumb", COLUMNS="80"))
    assert code == 0
    assert "\x1b" not in screen
    assert "RUNNING  report" in screen
