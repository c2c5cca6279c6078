"""The parts of the command line that need no API: assignments, tables, drawings, bars, prices."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from shardmill.cli import drawing, output
from shardmill.cli.assignments import params, step_params
from shardmill.cli.progress import bars, chosen
from shardmill.engine.submit_event import request_of
from shardmill.local import prices
from shardmill.model.definition import JobDefine
from shardmill.model.job import Job, Step, check_request
from shardmill.model.validate import check_definition
from support.fake_api import job, step

ROOT = Path(__file__).parents[2]
TEXT = st.text(max_size=20)
NAME = TEXT.filter(lambda text: text and "=" not in text)
STEP = st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,9}", fullmatch=True)


@given(st.dictionaries(NAME, TEXT))
def test_params_come_out_as_they_went_in(values: dict[str, str]) -> None:
    assert params([f"{name}={value}" for name, value in values.items()]) == values


@given(st.dictionaries(STEP, st.dictionaries(NAME, TEXT, min_size=1)))
def test_step_params_come_out_as_they_went_in(values: dict[str, dict[str, str]]) -> None:
    given_ = [f"{step}.{name}={value}" for step, own in values.items() for name, value in own.items()]
    assert step_params(given_) == values


@given(TEXT.filter(lambda text: "=" not in text.lstrip("=") or text.startswith("=")))
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        params([text])


@given(st.lists(TEXT))
def test_any_text_is_params_or_refused(texts: list[str]) -> None:
    try:
        found = params(texts)
    except typer.BadParameter:
        return
    assert [f"{name}={value}" for name, value in found.items()] == texts


@given(st.lists(TEXT))
def test_any_text_is_step_params_or_refused(texts: list[str]) -> None:
    try:
        found = step_params(texts)
    except typer.BadParameter:
        return
    flat = [f"{step}.{name}={value}" for step, own in found.items() for name, value in own.items()]
    assert sorted(flat) == sorted(texts)


def printed(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> list[str]:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    output.table(*arguments)
    return stream.getvalue().splitlines()


def test_a_table_is_aligned_and_one_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, ("A", "LONG"), [("one\nline", 1), ("x" * 12, None), ("", ["a", "b"])])
    assert lines == ["A             LONG", "one line      1", "xxxxxxxxxxxx  -", "-             a,b"]


def test_a_table_is_printed_while_its_rows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ((index,) for index in range(10_000))
    assert len(printed(monkeypatch, ("N",), rows)) == 10_001


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1:00 min"), (3599.6, "1:00:00"), (90061, "25:01:01")],
)
def test_durations(duration: float, text: str) -> None:
    assert output.seconds(duration) == text


def define(*steps: dict[str, Any]) -> JobDefine:
    return JobDefine.model_validate({"jobName": "j", "steps": list(steps)})


DIAMOND = define(
    {"stepName": "d", "dependentSteps": ["b", "c"]},
    {"stepName": "a", "sharding": 12},
    {"stepName": "b", "dependentSteps": ["a"]},
    {"stepName": "c", "dependentSteps": ["a", "a"]},
    {"stepName": "clean", "phase": 1},
)


def test_a_graph_as_text_goes_from_cause_to_effect() -> None:
    assert drawing.text(DIAMOND).splitlines() == [
        "j",
        "phase 0",
        "  a \u00d712 noop",
        "    b \u00d71 noop  after a",
        "    c \u00d71 noop  after a",
        "      d \u00d71 noop  after b, c",
        "phase 1",
        "  clean \u00d71 noop",
    ]


def test_a_graph_in_mermaid() -> None:
    lines = drawing.mermaid(DIAMOND).splitlines()
    assert lines[0] == "flowchart LR"
    assert '    s1["a \u00d712"]' in lines
    assert lines[-5:] == ["  s2 --> s0", "  s3 --> s0", "  s1 --> s2", "  s1 --> s3", "  p0 -.-> p1"]


def test_a_graph_for_graphviz() -> None:
    lines = drawing.dot(DIAMOND).splitlines()
    assert lines[0] == 'digraph "j" {'
    assert '  "a" -> "c"' in lines
    assert lines[-2:] == ['  "d" -> "clean" [style=dashed, ltail=cluster_0, lhead=cluster_1]', "}"]


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=30))
def test_every_step_is_drawn_after_those_it_waits_for(waits: list[list[int]]) -> None:
    steps = [
        {"stepName": f"s{at}", "dependentSteps": [f"s{before}" for before in own if before < at]}
        for at, own in enumerate(waits)
    ]
    steps.reverse()
    order = [step.step_name for step in drawing.in_order(define(*steps).steps)]
    assert sorted(order) == sorted(each["stepName"] for each in steps)
    for each in steps:
        for before in each["dependentSteps"]:
            assert order.index(before) < order.index(each["stepName"])


def test_two_thousand_steps_are_drawn() -> None:
    chain = define(
        *({"stepName": f"s{n}", "dependentSteps": [f"s{n - 1}"] if n else []} for n in range(2000))
    )
    for draw in drawing.FORMATS.values():
        assert "s1999" in draw(chain)


def steps_of(*states: str) -> list[Step]:
    return [Step.model_validate(step(f"s{at}", state, index=at)) for at, state in enumerate(states)]


def test_what_runs_is_shown_first_where_room_is_scarce() -> None:
    steps = steps_of("SUCCESS", "SUCCESS", "FAILED", "RUNNING", "READY", "WAITING", "WAITING")
    assert chosen(steps, 7) == steps
    assert [each.index for each in chosen(steps, 4)] == [2, 3, 4]
    assert [each.index for each in chosen(steps, 5)] == [2, 3, 4, 5]


def test_bars_say_how_many_steps_are_not_shown() -> None:
    shown = Job.model_validate(job("RUNNING", *(step(f"s{at}", "WAITING", index=at) for at in range(50))))
    console = Console(file=io.StringIO(), width=100)
    console.print(bars(shown, room=10))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "41 more steps" in text
    assert len(text.splitlines()) == 11


def test_bars_take_any_name_literally() -> None:
    shown = Job.model_validate(job("RUNNING", step("[red]x[/red]", counts={"FAILED": 2})))
    console = Console(file=io.StringIO(), width=100)
    console.print(bars(shown, room=10))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]x[/red]" in text
    assert "2 failed" in text


def example() -> JobDefine:
    found, faults = check_definition(yaml.safe_load((ROOT / "examples" / "balance-report.yaml").read_text()))
    assert not faults
    assert found
    return found


def test_the_example_is_valid_and_has_twelve_shards() -> None:
    assert [(each.step_name, each.sharding) for each in example().steps] == [
        ("generate_files", 12),
        ("merge_files", 1),
    ]


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("submit", "20200121"),
        ("submit-eventbridge", "20200121200001"),
        ("submit-scheduled", "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa"),
    ],
)
def test_the_sample_events_ask_for_the_example(name: str, trigger: str) -> None:
    event = json.loads((ROOT / "events" / f"{name}.json").read_text())
    document, default, _ = request_of(event, "request-id")
    request, faults = check_request(document, example())
    assert not faults
    assert request
    assert (request.trigger or default) == trigger


def states_of(machine: str) -> int:
    """How many states a Job passes that nothing goes wrong with, the inside of a Map aside."""
    states = json.loads((ROOT / "statemachine" / f"{machine}.asl.json").read_text())
    name, count = states["StartAt"], 0
    while name:
        count += 1
        name = states["States"][name].get("Next")
    return count


def test_the_bill_counts_the_states_that_the_machines_have() -> None:
    assert states_of("job") == prices.JOB_STATES
    assert states_of("step") == prices.STEP_STATES


def test_the_bill_is_what_was_counted_times_the_price() -> None:
    ended = Job.model_validate(job("SUCCESS", step("a", "SUCCESS", 12, 12), step("b", "SUCCESS", 1, 1)))
    items = {item.what: item for item in prices.bill(ended, api_calls=10)}
    assert set(items) == set(prices.USD_PER_MILLION)
    assert items["Step Functions transitions"].count == 2 + 2 * 6
    assert items["Lambda requests"].count == 1 + 2 * 3 + 2 * 10
    assert items["HTTP API requests"].usd == pytest.approx(10e-6)
    assert prices.total(list(items.values())) == pytest.approx(sum(item.usd for item in items.values()))


def test_the_bill_of_a_million_tasks_is_near_the_budget() -> None:
    ended = Job.model_validate(job("SUCCESS", step("a", "SUCCESS", 1_000_000, 1_000_000)))
    assert 1 < prices.total(prices.bill(ended, api_calls=3)) < 30
