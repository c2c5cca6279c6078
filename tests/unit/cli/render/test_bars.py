"""Progress of counted work and of file transfers."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shardmill.cli.commands.backfill import count
from shardmill.cli.render.bars import CountLines, count_bar, transfer_progress
from shardmill.model.time.backfill import Backfill
from support.fakes.api import (
    backfill,
)

Draw = Callable[[Any], list[str]]


@contextmanager
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    with monkeypatch.context() as patch:
        screen = Screen()
        patch.setattr(sys, "stderr", screen)
        patch.setenv("TERM", "xterm")
        yield screen


def a_backfill(state: str = "RUNNING", total: int = 5, **more: Any) -> Backfill:
    return Backfill.model_validate(backfill(state, total, **more))


def test_long_backfill_prints_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = CountLines()
    for done in range(10_000):
        lines(count(a_backfill(total=10_000, success=done, running=1)))
    assert len(capsys.readouterr().err.splitlines()) == 20
    lines(count(a_backfill(total=10_000, success=9_998, failed=1, running=1)))
    assert "1 failed" in capsys.readouterr().err


def test_bar_counts_ended_items(draw: Draw) -> None:
    title, line = draw(count_bar(count(a_backfill(success=1, failed=1, skipped=1, running=2))))
    assert title.strip() == "backfill 2 of report nightly RUNNING"
    assert line.split()[1:] == ["3/5", "1", "done", "1", "failed", "1", "skipped", "2", "running"]
    assert "0/0" in draw(count_bar(count(a_backfill("DONE", total=0))))[1]


def test_transfer_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with transfer_progress() as without_terminal:
        assert without_terminal is None
    with a_terminal(monkeypatch) as screen:
        with transfer_progress() as show:
            assert show
            show("downloading [a]\x1b.txt", 500, 2_000)
            show("downloading [a]\x1b.txt", 2_000, 2_000)
            show("downloading b", 0, 0)
        assert "downloading b" in screen.getvalue()
        with transfer_progress(enabled=False) as disabled:
            assert disabled is None
