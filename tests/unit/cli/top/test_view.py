"""The screen of `shardmill top`: what it shows, and that it fits."""

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from shardmill.cli.top.feed import Snapshot
from shardmill.cli.top.view import draw
from support.fakes.api import job, worker
from support.fakes.overview import overview

NOW = datetime(2026, 11, 16, 2, 18, 19, tzinfo=UTC)
SHOWN = {"slots": 4, "remainTasks": 2, "totalCompleted": 9, "totalFailed": 0, "status": 3}


def drawn(snapshot: Snapshot, width: int = 100, lines: int = 30, age: float = 0.0) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as found:
        console.print(draw(snapshot, "http://api", NOW, age, lines))
    return found.get().splitlines()


def test_the_screen_shows_jobs_groups_and_workers() -> None:
    running = job("RUNNING", late=True, startedTime="2026-11-16T02:17:19Z")
    failed = job(
        "FAILED", id="f", trigger="t0", notes="step main failed", completedTime="2026-11-16T02:17:49Z"
    )
    groups = [
        {"name": "default", "kind": "pull", "online": 1, "slots": 4, "held": 2},
        {"name": "reports", "kind": "pull", "online": 0, "slots": 0, "held": 0},
    ]
    snapshot = Snapshot(
        overview([running], [failed], [failed], groups), [worker(**SHOWN)], {running["id"]: (5, 13)}, 1.0
    )
    text = "\n".join(drawn(snapshot))
    assert "1 running" in text
    assert "1 failed in a day" in text
    assert "RUNNING  report  t1       1:00 min" in text
    assert "late; 5 of 13 tasks" in text
    assert text.count("step main failed") == 1
    assert "no worker is online" in text
    assert "w1      ONLINE" in text


@pytest.mark.parametrize(("width", "lines"), [(80, 24), (40, 12), (200, 60)])
def test_the_screen_fits_the_terminal(width: int, lines: int) -> None:
    jobs = [job("RUNNING", id=str(number), jobName="n" * 120) for number in range(50)]
    workers = [worker(str(number), "w" * 90, **SHOWN) for number in range(200)]
    groups = [
        {"name": f"g{number}", "kind": "pull", "online": 1, "slots": 4, "held": 2} for number in range(50)
    ]
    found = drawn(Snapshot(overview(jobs, groups=groups), workers, {}, 1.0), width, lines)
    assert len(found) <= max(lines, 14)
    assert max(map(len, found)) <= width
    assert sum("more" in line for line in found) == 3


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_notes_leave_the_state_the_name_and_the_time_readable(width: int) -> None:
    started = {"startedTime": "2026-11-16T02:17:19Z"}
    jobs = [
        job("RUNNING", id="1", jobName="balance-report", trigger="20261119T215500Z-nightly", **started),
        job("SUSPENDED", id="2", jobName="load", trigger="n1", notes="step work failed; " * 9, **started),
    ]
    found = "\n".join(drawn(Snapshot(overview(jobs), [], {"1": (0, 2)}, 1.0), width))
    assert re.search(r"^RUNNING +balance-report +2026\S+ +1:00 min", found, re.MULTILINE)
    assert re.search(r"^SUSPENDED +load +n1 +1:00 min", found, re.MULTILINE)


def test_an_error_says_how_old_the_data_is() -> None:
    snapshot = Snapshot(overview(), [], {}, 1.0, "cannot reach Shardmill at http://api")
    assert (
        "cannot reach Shardmill at http://api; data is 42.0 s old; trying again"
        in drawn(snapshot, 160, age=42)[0]
    )


def test_control_characters_in_names_are_not_printed() -> None:
    found = drawn(Snapshot(overview([job("RUNNING", notes="\x1b[2Jx")]), [], {}, 1.0))
    assert "\x1b" not in "".join(found)
