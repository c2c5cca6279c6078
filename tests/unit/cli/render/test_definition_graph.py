"""Drawings of the dependencies between definitions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.render import definition_graph
from shardmill.model.definition.answers import JobGraph

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


def tree(edges: Edges) -> list[str]:
    return definition_graph.text(JobGraph.model_validate(graph(edges))).splitlines()


def test_self_dependency_is_drawn_once() -> None:
    assert tree([("a", "a"), ("a", "b")]) == ["a", "  a", "  b"]


def test_a_cycle_is_drawn_once() -> None:
    assert tree([("a", "b"), ("b", "a")]) == ["a", "  b", "    a"]


def test_a_chain_of_five_thousand_definitions_is_drawn() -> None:
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
