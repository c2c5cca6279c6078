"""graph --jobs."""

import json
from typing import Any

from support.fakes.api import FakeApi, Run, output_of

GRAPH = "/v1/definitions:graph"

Edges = list[tuple[str, str]]


def graph(edges: Edges, schedules: dict[str, list[str]] | None = None, missing: str = "") -> dict[str, Any]:
    """Return a graph in the format of the API, with a node for each name in `edges` and `schedules`."""
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


def test_definitions_are_drawn_below_their_parents(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, FAMILY)
    assert output_of(run("graph", "--jobs")).splitlines() == [
        "ledger [nightly, noon]",
        "  report",
        "    mail [weekly]",
        "    audit",
        "lonely [daily]",
        "rates (not defined)",
        "  report",
    ]


def test_definitions_are_drawn_as_mermaid_dot_and_json(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, FAMILY)
    lines = output_of(run("graph", "--jobs", "--format", "mermaid")).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  j1["ledger [nightly, noon]"]' in lines
    assert '  j4["rates (not defined)"]' in lines
    assert "  j1 --> j5" in lines
    lines = output_of(run("graph", "--jobs", "--format", "dot")).splitlines()
    assert lines[0] == 'digraph "jobs" {'
    assert '  "mail" [label="mail [weekly]"]' in lines
    assert lines[-2:] == ['  "report" -> "audit"', "}"]
    found = json.loads(output_of(run("graph", "--jobs", "--json")))
    assert (found["nodes"][4], found["edges"][0]) == (FAMILY["nodes"][4], FAMILY["edges"][0])
    assert (found["format"], found["text"].splitlines()[0]) == ("text", "ledger [nightly, noon]")


def test_graph_without_definitions_suggests_define(api: FakeApi, run: Run) -> None:
    api.on("GET", GRAPH, graph([]))
    result = run("graph", "--jobs")
    assert (result.exit_code, result.stdout) == (0, "\n")
    assert result.stderr == "shardmill: no definitions found; save one with: shardmill define FILE\n"
