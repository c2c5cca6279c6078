"""The parts of the command line that need no API: assignments, tables, drawings, bars, prices."""

import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from shardmill import engine
from shardmill.cli import output
from shardmill.cli.hints import REWRITES, with_commands, without_routes
from shardmill.cli.parsing import (
    format_duration,
    parse_duration,
    parse_moment,
    parse_params,
    parse_step_params,
)
from shardmill.cli.render import progress, step_graph
from shardmill.cli.render.logs import JsonLine, TextLine
from shardmill.cli.render.progress import RunningTasks, StateChanges, job_bars, visible_steps
from shardmill.cli.render.worker_tasks import task_lines
from shardmill.client import Client, ServerError
from shardmill.engine.jobs.submit import request_of
from shardmill.local import prices
from shardmill.model.definition.fields import JobDefine
from shardmill.model.definition.validation import check_definition
from shardmill.model.job import Job, Step, Task, TaskProgress, check_request
from shardmill.model.states import TaskState
from shardmill.worker.inflight import Held
from shardmill.worker.task.channel import Live
from support.fakes.api import job, step, task
from support.fakes.leases import a_lease
from support.paths import PROJECT

TEXT = st.text(max_size=20)
NAME = TEXT.filter(lambda text: text and "=" not in text)
STEP = st.from_regex(r"[_a-zA-Z][_a-zA-Z0-9-]{0,9}", fullmatch=True)


@given(st.dictionaries(NAME, TEXT))
def test_params_come_out_as_they_went_in(values: dict[str, str]) -> None:
    assert parse_params([f"{name}={value}" for name, value in values.items()]) == values


@given(st.dictionaries(STEP, st.dictionaries(NAME, TEXT, min_size=1)))
def test_step_params_come_out_as_they_went_in(values: dict[str, dict[str, str]]) -> None:
    given_ = [f"{step}.{name}={value}" for step, own in values.items() for name, value in own.items()]
    assert parse_step_params(given_) == values


@given(TEXT.filter(lambda text: "=" not in text.lstrip("=") or text.startswith("=")))
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_params([text])


@given(st.lists(TEXT))
def test_any_text_is_params_or_refused(texts: list[str]) -> None:
    try:
        found = parse_params(texts)
    except typer.BadParameter:
        return
    assert [f"{name}={value}" for name, value in found.items()] == texts


@given(st.lists(TEXT))
def test_any_text_is_step_params_or_refused(texts: list[str]) -> None:
    try:
        found = parse_step_params(texts)
    except typer.BadParameter:
        return
    flat = [f"{step}.{name}={value}" for step, own in found.items() for name, value in own.items()]
    assert sorted(flat) == sorted(texts)


@pytest.mark.parametrize(
    ("text", "zone", "begins"),
    [
        ("2026-01-01", "UTC", "2026-01-01T00:00:00+00:00"),
        ("20260701", "Europe/Berlin", "2026-06-30T22:00:00+00:00"),
        ("2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00+00:00"),
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),  # its clock leaves midnight out
        ("2026-10-25T02:30:00+01:00", "Asia/Tokyo", "2026-10-25T01:30:00+00:00"),
        ("2026-10-25 02:30", "Asia/Tokyo", "2026-10-25T02:30:00+00:00"),
    ],
)
def test_a_date_begins_in_its_zone_and_a_time_is_what_it_is(text: str, zone: str, begins: str) -> None:
    assert parse_moment(text).to_utc(zone).isoformat() == begins


@given(st.one_of(TEXT, st.from_regex(r"\d{4}-?\d\d-?\d\d(T\d\d:\d\d(Z|[+-]\d\d:\d\d)?)?", fullmatch=True)))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    try:
        found = parse_moment(text)
        began = found.to_utc("Pacific/Kiritimati")
    except typer.BadParameter:
        return
    assert found.text == text
    assert began.tzinfo


@given(st.integers(0, 10 * 366 * 86_400))
def test_a_span_comes_out_as_it_went_in(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == parse_duration(str(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5h", "1h30m", "1 h", "1w", "\u0661h", "9" * 13, "3661d"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


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


def test_a_graph_in_mermaid() -> None:
    lines = step_graph.mermaid(DIAMOND).splitlines()
    assert lines[0] == "flowchart LR"
    assert '    s1["a \u00d712"]' in lines
    assert lines[-5:] == ["  s2 --> s0", "  s3 --> s0", "  s1 --> s2", "  s1 --> s3", "  p0 -.-> p1"]


def test_a_graph_for_graphviz() -> None:
    lines = step_graph.dot(DIAMOND).splitlines()
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


def steps_of(*states: str) -> list[Step]:
    return [Step.model_validate(step(f"s{at}", state, index=at)) for at, state in enumerate(states)]


def test_what_runs_is_shown_first_where_room_is_scarce() -> None:
    steps = steps_of("SUCCESS", "SUCCESS", "FAILED", "RUNNING", "READY", "WAITING", "WAITING")
    assert visible_steps(steps, 7) == steps
    assert [each.index for each in visible_steps(steps, 4)] == [2, 3, 4]
    assert [each.index for each in visible_steps(steps, 5)] == [2, 3, 4, 5]


def test_bars_say_how_many_steps_are_not_shown() -> None:
    shown = Job.model_validate(job("RUNNING", *(step(f"s{at}", "WAITING", index=at) for at in range(50))))
    console = Console(file=io.StringIO(), width=100)
    console.print(job_bars(shown, 10, {}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "41 more steps" in text
    assert len(text.splitlines()) == 11


def test_bars_take_any_name_literally() -> None:
    shown = Job.model_validate(job("RUNNING", step("[red]x[/red]", counts={"FAILED": 2})))
    console = Console(file=io.StringIO(), width=100)
    console.print(job_bars(shown, 10, {}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]x[/red]" in text
    assert "2 failed" in text


def tasks_at(*progress: dict[str, Any]) -> list[Task]:
    return [Task.model_validate(task(at, "RUNNING", progress=told)) for at, told in enumerate(progress)]


def drawn(shown: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(shown)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_running_tasks_stand_below_their_step_as_far_as_there_is_room() -> None:
    shown = Job.model_validate(job("RUNNING", step("a"), step("b", "WAITING", index=1)))
    told = [{"percent": 42.4, "message": "half [red]x\x1b[2J"}, {"message": "soon"}, {"percent": 100}]
    lines = drawn(job_bars(shown, 10, {"a": tasks_at(*told)}))
    assert [line.split()[0] for line in lines] == ["report/t1", "a", "task", "task", "task", "b"]
    assert lines[2].rstrip().endswith("42% half [red]x [2J")
    assert (lines[3].split(), lines[4].split()[-1]) == (["task", "1", "soon"], "100%")
    assert len(drawn(job_bars(shown, 3, {"a": tasks_at(*told)}))) == 4
    assert len(drawn(job_bars(shown, 2, {"a": tasks_at(*told)}))) == 3


def test_what_a_job_waits_for_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "a worker of group reports that can run java"
    shown = Job.model_validate(job("RUNNING", waitingFor=[sentence]))
    changes = StateChanges()
    changes(shown)
    changes(shown)
    assert capsys.readouterr().err.count(f"job report/t1 is waiting for: {sentence}\n") == 1
    assert f"waiting for: {sentence}" in drawn(job_bars(shown, 10, {}))


class Asked:
    """A client that counts who asks for tasks."""

    def __init__(self, *found: Task) -> None:
        self.found = list(found)
        self.asked: list[str] = []

    def some_tasks(self, _: str, __: str, step_name: str, state: TaskState, most: int) -> list[Task]:
        assert (state, most) == (TaskState.RUNNING, 10)
        self.asked.append(step_name)
        if not self.found:
            raise ServerError("broken")
        return self.found


def test_only_running_steps_are_asked_for_tasks_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Task.model_validate(task(9, "RUNNING"))
    client = Asked(*tasks_at(*[{"percent": 1}] * 7), silent)
    running = RunningTasks(cast(Client, client))
    shown = Job.model_validate(job("RUNNING", step("a"), step("b", "WAITING", index=1)))
    for _ in range(5):
        assert [each.rank for each in running.tasks(shown)["a"]] == [0, 1, 2, 3, 4]
    assert client.asked == ["a"]
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.0)
    client.found = []
    assert running.tasks(shown) == {"a": []}
    assert running.tasks(Job.model_validate(job("SUCCESS", step("a", "SUCCESS")))) == {}
    assert client.asked == ["a", "a"]


def held(rank: int, told: TaskProgress | None = None) -> Held:
    return Held(a_lease(rank=rank), began=100.0 - rank, live=Live(told))


def test_a_worker_shows_a_line_for_each_task_it_runs() -> None:
    tasks = [held(1), held(2, TaskProgress(percent=50, message="half")), held(3)]
    rows = drawn(task_lines(tasks, 100.0, 5))
    assert rows[0].split() == ["balance/t1", "main", "1", "1.0", "s"]
    assert rows[1].split()[:5] == ["balance/t1", "main", "2", "2.0", "s"]
    assert rows[1].rstrip().endswith("50% half")
    assert [row.strip() for row in drawn(task_lines(tasks, 100.0, 2))[1:]] == ["… and 2 more"]
    assert drawn(task_lines([], 100.0, 5)) == ["waiting for tasks"]


def said(*arguments: Any, name: str = "shardmill.worker", **more: Any) -> dict[str, Any]:
    record = logging.LogRecord(name, logging.WARNING, "x.py", 1, arguments[0], arguments[1:], None, **more)
    found: dict[str, Any] = json.loads(JsonLine().format(record))
    assert found.pop("time").endswith("Z")
    assert found.pop("level") == "warning"
    return found


def test_a_log_line_in_json_has_the_pairs_of_its_message() -> None:
    assert said("ended task=%s attempt=%d reason=%s", "x_0_1", 2, "exit code=3 \n'é") == {
        "event": "ended",
        "task": "x_0_1",
        "attempt": 2,
        "reason": "exit code=3 \n'é",
    }
    assert said("%s-failing error=%s (trying again)", "lease", ValueError("no")) == {
        "event": "lease-failing",
        "error": "no",
        "note": "(trying again)",
    }
    assert said("stopping grace=%gs", 10.0) == {"event": "stopping", "grace": "10s"}
    assert said("suspended: until `%s`", "x y") == {"event": "suspended", "note": "until `x y`"}
    assert said("done share=%d%% at=here", 7) == {"event": "done", "share": "7%", "at": "here"}
    assert said("offline") == {"event": "offline"}
    assert said("a 100%% %s", "b", name="botocore.x") == {
        "event": "log",
        "logger": "botocore.x",
        "message": "a 100% b",
    }


def test_a_sentence_of_the_engine_stays_one_with_what_it_was_given() -> None:
    record = logging.LogRecord("shardmill-functions", logging.WARNING, "x.py", 1, "it is late", (), None)
    record.__dict__.update(action="start", jobId="x")
    found = json.loads(JsonLine().format(record))
    assert {name: found[name] for name in ("event", "message", "action", "jobId")} == {
        "event": "log",
        "message": "it is late",
        "action": "start",
        "jobId": "x",
    }
    text = TextLine("%(levelname)s %(message)s").format(record)
    assert text == "WARNING it is late action=start jobId=x"


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_engine_logs_once_and_as_its_worker_does(form: str) -> None:
    code = (
        "from shardmill.aws.observability import logger\n"
        "from shardmill.cli.render.logs import log_to_stderr\n"
        f"log_to_stderr({form!r})\n"
        "logger.warning('it is late', extra={'action': 'start'})\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    [line] = found.stderr.splitlines()
    assert found.stdout == ""
    if form == "json":
        assert json.loads(line)["message"] == "it is late"
    else:
        assert line.endswith(" WARNING shardmill-functions it is late action=start")


def test_no_route_that_the_engine_names_reaches_people() -> None:
    sources = Path(engine.__path__[0]).rglob("*.py")
    named = [line for file in sources for line in file.read_text().splitlines() if "/v1/" in line]
    assert named
    for line in named:
        text = re.sub(r"\{\w+\}", "a-name", line)
        assert any("/v1/" not in with_commands(code, text) for code in REWRITES), text
        assert "/v1/" not in without_routes(text)


@given(st.text(max_size=30), st.integers(), st.text(max_size=30))
def test_any_value_comes_out_of_a_log_line_as_it_went_in(text: str, number: int, last: str) -> None:
    assert said("x a=%s b=%d c=%s", text, number, last) == {"event": "x", "a": text, "b": number, "c": last}


def example() -> JobDefine:
    found, faults = check_definition(
        yaml.safe_load((PROJECT / "examples" / "balance-report.yaml").read_text())
    )
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
    event = json.loads((PROJECT / "events" / f"{name}.json").read_text())
    document, default, _ = request_of(event, "request-id")
    request, faults = check_request(document, example())
    assert not faults
    assert request
    assert (request.trigger or default) == trigger


def states_of(machine: str) -> int:
    """How many states a Job passes that nothing goes wrong with, the inside of a Map aside."""
    states = json.loads((PROJECT / "statemachine" / f"{machine}.asl.json").read_text())
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
