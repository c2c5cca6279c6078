"""Which definitions and runs wait for which: graph --jobs, dependencies, and what `job` shows of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.render import definition_graph
from shardmill.model.definition.fields import JobGraph
from support.fakes.api import FakeApi, Run, command_line, fine, job, page, parent_run, step

JOB = "/v1/jobs/report/t1"
GRAPH = "/v1/definitions:graph"
Edges = list[tuple[str, str]]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


def graph(edges: Edges, schedules: dict[str, list[str]] | None = None, missing: str = "") -> dict[str, Any]:
    """As the API answers it; nodes without edges are those that have schedules."""
    known = schedules or {}
    names = sorted({name for edge in edges for name in edge} | set(known))
    return {
        "nodes": [
            {"jobName": name, "defined": name != missing, "schedules": known.get(name, [])} for name in names
        ],
        "edges": [{"parent": parent, "child": child} for parent, child in edges],
    }


FAMILY = graph(
    [("ledger", "report"), ("rates", "report"), ("report", "mail"), ("report", "audit")],
    {"ledger": ["nightly", "noon"], "mail": ["weekly"], "lonely": ["daily"]},
    missing="rates",
)


def test_jobs_are_drawn_below_those_that_they_wait_for(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, FAMILY)
    assert fine(run("graph", "--jobs")).splitlines() == [
        "ledger [nightly, noon]",
        "  report",
        "    mail [weekly]",
        "    audit",
        "lonely [daily]",
        "rates (not defined)",
        "  report",
    ]


def test_jobs_are_drawn_for_other_programs(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, FAMILY)
    lines = fine(run("graph", "--jobs", "--format", "mermaid")).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  j1["ledger [nightly, noon]"]' in lines
    assert '  j4["rates (not defined)"]' in lines
    assert "  j1 --> j5" in lines
    lines = fine(run("graph", "--jobs", "--format", "dot")).splitlines()
    assert lines[0] == 'digraph "jobs" {'
    assert '  "mail" [label="mail [weekly]"]' in lines
    assert lines[-2:] == ['  "report" -> "audit"', "}"]
    found = json.loads(fine(run("graph", "--jobs", "--json")))
    assert (found["nodes"][4], found["edges"][0]) == (FAMILY["nodes"][4], FAMILY["edges"][0])
    assert (found["format"], found["text"].splitlines()[0]) == ("text", "ledger [nightly, noon]")


def test_without_definitions_there_is_nothing_to_draw(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, graph([]))
    result = run("graph", "--jobs")
    assert (result.exit_code, result.stdout) == (0, "\n")
    assert result.stderr == "shardmill: no definitions found; save one with: shardmill define FILE\n"


def tree(edges: Edges) -> list[str]:
    return definition_graph.text(JobGraph.model_validate(graph(edges))).splitlines()


def test_one_that_waits_for_its_own_past_stands_below_itself_once() -> None:
    assert tree([("a", "a"), ("a", "b")]) == ["a", "  a", "  b"]


def test_a_circle_is_drawn_from_somewhere() -> None:
    assert tree([("a", "b"), ("b", "a")]) == ["a", "  b", "    a"]


def test_a_long_chain_is_drawn() -> None:
    lines = tree([(f"j{number}", f"j{number + 1}") for number in range(5_000)])
    assert len(lines) == 5_001


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40, unique=True))
def test_every_edge_is_drawn_once(pairs: list[tuple[int, int]]) -> None:
    edges = [(f"j{parent}", f"j{child}") for parent, child in pairs]
    above: list[str] = []
    found = []
    for line in tree(edges):
        name = line.strip()
        depth = (len(line) - len(name)) // 2
        above = [*above[:depth], name]
        if depth:
            found.append((above[depth - 1], name))
    assert sorted(found) == sorted(edges)


# The runs that a Job waits for


RUNS = [
    parent_run(preTrigger="20260105", preState="SUCCESS", dataTime="2026-01-05T00:00:00Z"),
    parent_run("rates", dataTime="2026-01-05T04:00:00Z", strategy="last:2"),
    parent_run("rates", preTrigger="x", preState="FAILED", dataTime="2026-01-05T05:00:00Z"),
    parent_run("mail", strategy="any"),
]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell] for line in text.splitlines()]


def test_dependencies_are_listed(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{JOB}/dependencies", page(*RUNS))
    assert cells(fine(run("dependencies", "report", "t1"))) == [
        ["PARENT", "TRIGGER", "DATA TIME", "STATE", "STRATEGY"],
        ["ledger", "20260105", "2026-01-05T00:00:00Z", "SUCCESS", "all"],
        ["rates", "-", "2026-01-05T04:00:00Z", "not submitted", "last:2"],
        ["rates", "x", "2026-01-05T05:00:00Z", "FAILED", "all"],
        ["mail", "-", "-", "not submitted", "any"],
    ]
    found = json.loads(fine(run("dependencies", "report", "t1", "--json")))
    assert [each["preStatus"] for each in found] == [1, 0, 0, 0]


def test_a_waiting_job_shows_what_it_waits_for_first_what_is_not_there(api: FakeApi, run: Run) -> None:
    sentence = "waits for rates of 2026-01-05T04:00:00Z"
    api.on("GET", JOB, job("WAITING", waitingFor=[sentence], notes=sentence))
    api.on("GET", f"{JOB}/dependencies", page(*RUNS))
    facts, _, table = fine(run("job", "report", "t1")).partition("\n\n")
    assert facts.splitlines()[-1] == "  waits for  rates of 2026-01-05T04:00:00Z"
    assert "notes" not in facts
    assert [row[0] for row in cells(table)] == ["PARENT", "rates", "rates", "mail", "ledger"]


def test_a_job_that_waits_for_very_many_runs_shows_some(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING"))
    api.on("GET", f"{JOB}/dependencies", page(*[parent_run()] * 50))
    lines = fine(run("job", "report", "t1")).splitlines()
    assert sum(line.startswith("ledger") for line in lines) == 20
    assert lines[-1] == "… and 30 more; to list all, run: shardmill dependencies report t1"


def test_only_a_waiting_job_is_asked_for_it(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("RUNNING", step()))
    fine(run("job", "report", "t1"))
    api.on("GET", JOB, job("WAITING"))
    fine(run("job", "report", "t1", "--json"))
    assert api.asked == [f"GET {JOB}"] * 2


def test_a_job_that_waits_for_its_turn_has_no_list(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING", waitingFor=["waits for the previous Job of the schedule s to end"]))
    api.on("GET", f"{JOB}/dependencies", page())
    shown = fine(run("job", "report", "t1"))
    assert shown.endswith("  waits for  the previous Job of the schedule s to end\n")


def test_a_job_is_shown_even_if_its_dependencies_cannot_be_read(api: FakeApi, run: Run) -> None:
    api.on("GET", JOB, job("WAITING"))
    result = run("job", "report", "t1")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "report t1 WAITING")
    assert "cannot read the dependencies of the job: there is no" in result.stderr
