"""What the docs say of times and events is what the code does."""

import re

import pytest

from shardmill.engine import downstream
from shardmill.engine.jobs import deadlines
from shardmill.engine.running import finish
from shardmill.engine.schedules import fire
from shardmill.model.time.timetable import Timetable
from support.diary import at
from support.paths import PROJECT

DOCS = PROJECT / "docs"


def examples() -> list[list[str]]:
    text = (DOCS / "schedules.md").read_text()
    table = text[text.index("<!-- examples:begin -->") : text.index("<!-- examples:end -->")]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip("` ") for cell in row] for row in rows]


@pytest.mark.parametrize(("cron", "zone", "after", "times"), examples())
def test_the_worked_examples_of_clock_changes(cron: str, zone: str, after: str, times: str) -> None:
    table, moment = Timetable(cron=cron, timezone=zone), at(after)
    for wanted in times.split(", "):
        found = table.after(moment)
        assert found == at(wanted)
        moment = found


def test_there_are_examples() -> None:
    assert len(examples()) == 9


def test_every_event_is_documented() -> None:
    text = (DOCS / "events.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z][\w ]+)` \|", text, re.MULTILINE))
    kinds = {
        finish.JOB_ENDED,
        finish.JOB_SUSPENDED,
        finish.STEP_ENDED,
        deadlines.JOB_LATE,
        fire.SCHEDULE_SKIPPED,
        downstream.CHILD_REFUSED,
    }
    assert documented == kinds
