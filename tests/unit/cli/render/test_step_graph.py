"""Drawings of the steps of a definition."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.render import step_graph
from shardmill.model.definition.fields import JobDefine


def define(*steps: dict[str, Any]) -> JobDefine:
    return JobDefine.model_validate({"jobName": "j", "steps": list(steps)})


DIAMOND = define(
    {"stepName": "d", "dependentSteps": ["b", "c"]},
    {"stepName": "a", "sharding": 12},
    {"stepName": "b", "dependentSteps": ["a"]},
    {"stepName": "c", "dependentSteps": ["a", "a"]},
    {"stepName": "clean", "phase": 1},
)


def test_text_lists_steps_below_their_dependencies() -> None:
    assert step_graph.text(DIAMOND).splitlines() == [
        "j",
        "phase 0",
        "  a \u00d712 noop",
        "    b \u00d71 noop  after a",
        "    c \u00d71 noop  after a",
        "      d \u00d71 noop  after b, c",
        "phase 1",
        "  clean \u00d71 noop",
    ]


def test_mermaid_has_the_steps_and_their_edges() -> None:
    lines = step_graph.mermaid(DIAMOND).splitlines()
    assert lines[0] == "flowchart LR"
    assert '    s1["a \u00d712"]' in lines
    assert lines[-5:] == ["  s2 --> s0", "  s3 --> s0", "  s1 --> s2", "  s1 --> s3", "  p0 -.-> p1"]


def test_dot_has_the_steps_and_their_edges() -> None:
    lines = step_graph.dot(DIAMOND).splitlines()
    assert lines[0] == 'digraph "j" {'
    assert '  "a" -> "c"' in lines
    assert lines[-2:] == ['  "d" -> "clean" [style=dashed, ltail=cluster_0, lhead=cluster_1]', "}"]


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=30))
def test_every_step_follows_its_dependencies(waits: list[list[int]]) -> None:
    steps = [
        {"stepName": f"s{at}", "dependentSteps": [f"s{before}" for before in own if before < at]}
        for at, own in enumerate(waits)
    ]
    steps.reverse()
    order = [step.step_name for step in step_graph.topological_order(define(*steps).steps)]
    assert sorted(order) == sorted(each["stepName"] for each in steps)
    for each in steps:
        for before in each["dependentSteps"]:
            assert order.index(before) < order.index(each["stepName"])


def test_two_thousand_steps_are_drawn() -> None:
    chain = define(
        *({"stepName": f"s{n}", "dependentSteps": [f"s{n - 1}"] if n else []} for n in range(2000))
    )
    for draw in step_graph.FORMATS.values():
        assert "s1999" in draw(chain)
