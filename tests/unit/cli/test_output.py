"""Tables, durations and sizes."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli import output


def printed(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> list[str]:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    output.table(*arguments)
    return stream.getvalue().splitlines()


def test_table_is_aligned_with_one_line_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, ("A", "LONG"), [("one\nline", 1), ("x" * 12, None), ("", ["a", "b"])])
    assert lines == ["A             LONG", "one line      1", "xxxxxxxxxxxx  -", "-             a,b"]


def test_table_of_many_rows_is_printed_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ((index,) for index in range(10_000))
    assert len(printed(monkeypatch, ("N",), rows)) == 10_001


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1:00 min"), (3599.6, "1:00:00"), (90061, "25:01:01")],
)
def test_durations_are_formatted(duration: float, text: str) -> None:
    assert output.seconds(duration) == text


@given(st.integers(0, 10**16))
def test_size_is_short_and_accurate(number: int) -> None:
    amount, unit = output.size(number).split()
    factor = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert float(amount) * factor == pytest.approx(number, rel=0.05, abs=0.5)
    assert len(amount) <= 5 or unit == "TB"


def test_texts_of_others_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason or a name written by another user; Shardmill's own colours stay."""
    output.line("killed by eve: \033]0;title\a\033[2J\r\x9b5n\u202e\033[8;5m\n\033[31mFAILED\033[0m\tx")
    assert capsys.readouterr().out == "killed by eve:  ]0;title  [2J  5n  [8;5m\n\033[31mFAILED\033[0m\tx\n"
