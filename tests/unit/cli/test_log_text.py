"""Logs on a terminal: colours are kept, and nothing else controls the terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.log_text import RESET, LogText, log_text
from support.command_process import environment, run_on_terminal
from support.fakes.api import FakeApi, Run, log, task

RED = "\x1b[31m"
HOSTILE = [
    "\x1b[2J",  # clears the screen
    "\x1b[1;1H",  # moves the cursor
    "\x1b]0;title\x07",
    "\x1b]52;c;Y2xpcGJvYXJk\x1b\\",  # sets the clipboard
    "\x1bPq\x1b\\",
    "\x1bc",  # resets the terminal
    "\x9b",
    "\x07",
    "\x08",
]


@pytest.mark.parametrize("sequence", HOSTILE)
@pytest.mark.parametrize("colours", [True, False])
def test_sequences_that_control_the_terminal_are_removed(sequence: str, colours: bool) -> None:
    assert log_text(f"one{sequence}two\r\n\tthree", colours) == "onetwo\r\n\tthree"


def test_colours_are_kept_and_end_with_the_log() -> None:
    assert log_text(f"{RED}no\x1b[0m yes", True) == f"{RED}no\x1b[0m yes"
    assert log_text(f"{RED}no", True) == f"{RED}no{RESET}"
    assert log_text(f"{RED}no", False) == "no"


@given(st.lists(st.sampled_from([*HOSTILE, RED, "text", "\n"])), st.data())
def test_a_log_in_pieces_is_shown_like_a_whole_one(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    at = data.draw(st.integers(0, len(text)))
    pieces = LogText(True)
    assert pieces.shown(text[:at]) + pieces.shown(text[at:]) + pieces.end() == log_text(text, True)


def test_logs_and_why_do_not_control_the_terminal(api: FakeApi, run: Run) -> None:
    text = f"{RED}no\x1b[2J\n"
    path = "/v1/jobs/report/t1/steps/main/tasks/2"
    api.on("GET", path, task(2, "FAILED"))
    api.on("GET", f"{path}/logs", log(text, 5, True))
    explained = {"jobName": "report", "trigger": "t1", "state": "FAILED", "sentences": [text]}
    api.on("GET", "/v1/jobs/report/t1:explain", explained)
    with api.served() as url:
        shown = run_on_terminal("logs", "report", "t1", "main", "2", env=environment(url, TERM="xterm"))
    assert RED in shown[1]
    assert "\x1b[2J" not in shown[1]
    assert run("logs", "report", "t1", "main", "2").stdout == text
    assert run("why", "report", "t1").stdout == "no\n\n"
