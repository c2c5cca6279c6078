"""Colour, the width of tables and the time zone of what commands print."""

import io
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli import output, terminal
from support.command_process import environment, run_on_terminal
from support.fakes.api import FakeApi, Run, job, output_of, page

MOMENT = datetime(2026, 7, 16, 22, 17, 19, 500_000, UTC)
LONG = job("RUNNING", jobName="a-report-with-a-long-name", trigger="20261118T130025123Z", submitUser="u" * 60)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("on_terminal", "environ", "no_color", "wanted"),
    [
        (True, {"TERM": "xterm"}, False, True),
        (False, {"TERM": "xterm"}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, False, True),
        (True, {"TERM": "xterm"}, True, False),
        (False, {"FORCE_COLOR": "1"}, False, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "xterm", "FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_depends_on_the_terminal_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, on_terminal: bool, environ: dict[str, str], no_color: bool, wanted: bool
) -> None:
    monkeypatch.setattr("os.environ", environ)
    monkeypatch.setattr(terminal.display, "no_color", no_color)
    assert terminal.coloured(Terminal() if on_terminal else io.StringIO()) is wanted


def test_running_items_have_their_duration_until_now_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_columns", lambda _: 80)
    start = datetime.now(UTC) - timedelta(minutes=5)
    assert (output.elapsed(start, None, running=True) or 0) >= 300
    assert output.elapsed(datetime.max.replace(tzinfo=UTC), None, running=True) == 0, "clocks differ"
    assert output.elapsed(MOMENT, MOMENT, running=True) == 0
    assert output.elapsed(MOMENT, None) is None
    monkeypatch.setattr(output, "terminal_columns", lambda _: None)
    assert output.elapsed(MOMENT, None, running=True) is None


@pytest.mark.usefixtures("berlin")
def test_times_are_in_the_users_zone_unless_utc_is_asked_for(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.time_text(MOMENT) == "2026-07-17T00:17:19+02:00"
    assert terminal.short_time_text(MOMENT) == "07-17 00:17:19"
    api.on("GET", "/v1/jobs", page(job(createTime="2026-07-16T22:17:19.500Z")))
    assert "2026-07-17T00:17:19+02:00" in output_of(run("jobs"))
    assert "2026-07-16T22:17:19Z" in output_of(run("jobs", "--utc"))
    assert "2026-07-16T22:17:19Z" in output_of(run("--utc", "jobs"))
    assert "2026-07-17T00:17:19+02:00" in output_of(run("jobs"))
    assert '"createTime": "2026-07-16T22:17:19.500Z"' in output_of(run("jobs", "--json"))


def test_force_color_colours_a_pipe_and_no_color_does_not(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(job("FAILED")))
    assert "\x1b[31mFAILED" in output_of(run("jobs", env={"FORCE_COLOR": "1"}))
    assert "\x1b" not in output_of(run("jobs", "--no-color", env={"FORCE_COLOR": "1"}))
    assert "\x1b" not in output_of(run("jobs"))


def test_a_table_fits_a_terminal_of_80_columns_and_is_complete_in_a_pipe(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs", page(LONG))
    assert "u" * 60 in output_of(run("jobs"))
    with api.served() as url:
        env = environment(url, TERM="xterm", COLUMNS="80", NO_COLOR="1")
        code, screen = run_on_terminal("jobs", env=env)
    assert code == 0
    headings, row = screen.splitlines()
    assert max(len(headings), len(row)) <= 80
    assert row.startswith("a-report-with-a…  20261118T130025123Z  RUNNING  11-16 02:17:19  ")
    assert row.endswith("u…")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_fitted_table_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("os.environ", {**os.environ, "COLUMNS": str(width), "NO_COLOR": "1"})
    output.table(("NAME", "TEXT", "TIME", "MORE"), [("漢字" * 20, "x" * 300, MOMENT, "y" * 30)])
    lines = stream.getvalue().splitlines()
    assert all(terminal.text_width(line) <= width for line in lines)
    assert "漢" in lines[1]


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 20)), min_size=1, max_size=8), st.integers(30, 200)
)
def test_fitted_columns_fit_and_never_grow(columns: list[tuple[int, int]], room: int) -> None:
    widths = [max(width, heading) for width, heading in columns]
    headings = [heading for _, heading in columns]
    fitted = output.fit(widths, headings, room)
    assert sum(fitted) + 2 * (len(fitted) - 1) <= max(room, widths[0])
    assert all(new <= old for new, old in zip(fitted, widths, strict=False))


def test_a_column_that_is_left_out_gives_its_room_to_the_others() -> None:
    assert output.fit([27, 6, 13, 5, 14, 9], [5, 4, 13, 5, 7, 9], 70) == [24, 6, 13, 5, 14]


@given(st.text(), st.integers(1, 40))
def test_a_cut_text_has_at_most_the_width(text: str, width: int) -> None:
    assert terminal.text_width(terminal.cut(text, width)) <= max(width, 1)
