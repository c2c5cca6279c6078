"""why and history."""

import json

from support.fakes.api import (
    FakeApi,
    Run,
    output_of,
    page,
    transition,
)

JOB = "/v1/jobs/report/t1"

WHO = ["report", "t1"]


def test_history_is_listed(api: FakeApi, run: Run) -> None:
    api.on(
        "GET",
        f"{JOB}/history",
        page(
            transition("INIT", actor="admin"),
            transition("FAILED", "main", reason="2 tasks\nfailed"),
            transition("INIT", run=2, actor="bob", reason="fixed"),
        ),
    )
    lines = output_of(run("history", *WHO)).splitlines()
    assert [[cell.strip() for cell in line.split("  ") if cell] for line in lines] == [
        ["TIME", "RUN", "STEP", "STATE", "USER", "REASON"],
        ["2026-11-16T02:17:19Z", "1", "-", "INIT", "admin", "-"],
        ["2026-11-16T02:17:19Z", "1", "main", "FAILED", "shardmill", "2 tasks failed"],
        ["2026-11-16T02:17:19Z", "2", "-", "INIT", "bob", "fixed"],
    ]
    found = json.loads(output_of(run("history", *WHO, "--json")))
    assert [(each["stepName"], each["run"]) for each in found] == [(None, 1), ("main", 1), (None, 2)]


def test_why_prints_the_sentences(api: FakeApi, run: Run) -> None:
    expected = {"jobName": "report", "trigger": "t1", "state": "RUNNING", "sentences": ["One.", "Two."]}
    api.on("GET", f"{JOB}:explain", expected)
    assert output_of(run("why", *WHO)) == "One.\nTwo.\n"
    assert json.loads(output_of(run("why", *WHO, "--json")))["sentences"] == ["One.", "Two."]
