"""validate, define, definitions and graph."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.fakes.api import (
    FakeApi,
    Run,
    listed,
    offline,
    output_of,
    page,
    saved,
)

WHY = "suspended by bob: a di\x1bsk"

SHOWN = "suspended by bob: a di sk"


def test_validate_accepts_a_valid_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("jobName: a\nsteps:\n- {stepName: x, sharding: 12}\n- {stepName: y}\n")
    result = offline("validate", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "a is valid: 2 steps, 13 tasks\n", "")
    result = offline("validate", str(file), "--json")
    assert json.loads(result.stdout) == {"valid": True, "faults": []}


def test_validate_lists_every_fault_with_its_pointer(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"jobName": "a", "steps": [{"stepName": "1", "shards": 2}]}')
    result = offline("validate", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].endswith("job.json is not a valid definition: 2 faults")
    assert lines[1].startswith("shardmill:   /steps/0/shards: unknown field 'shards'")
    assert lines[2].startswith("shardmill:   /steps/0/stepName: must start with")
    result = offline("validate", str(file), "--json")
    assert result.exit_code == 1
    assert [fault["pointer"] for fault in json.loads(result.stdout)["faults"]] == [
        "/steps/0/shards",
        "/steps/0/stepName",
    ]


def test_validate_reads_standard_input() -> None:
    assert offline("validate", "-", input="jobName: a\ntype: noop\n").exit_code == 0


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "{", ""])
def test_unreadable_file_is_reported_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    result = offline("validate", "x.yaml")
    assert result.exit_code == 1
    assert result.stderr.startswith("shardmill: x.yaml")
    assert len(result.stderr.splitlines()) == 1


def test_define_saves_files_in_order(api: FakeApi, run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"jobName: {name}\ntype: noop\n")
        api.on("PUT", f"/v1/definitions/{name}", saved(name))
    api.on("POST", "/v1/definitions:validate", {"valid": True, "faults": []})
    result = run("define", "a.yaml", "b.yaml")
    assert result.exit_code == 0
    assert result.stdout == "a version 3 saved: 1 step, 4 tasks\nb version 3 saved: 1 step, 4 tasks\n"
    result = run("define", "a.yaml", "b.yaml", "--json")
    assert [json.loads(line)["jobName"] for line in result.stdout.splitlines()] == ["a", "b"]


def test_define_saves_nothing_if_one_file_is_bad(api: FakeApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("jobName: a\ntype: noop\n")
    (tmp_path / "b.yaml").write_text("jobName: b\n")
    fault = {"pointer": "/steps", "code": "missing-field", "message": "is required"}
    good, bad = {"valid": True, "faults": []}, {"valid": False, "faults": [fault]}
    api.on("POST", "/v1/definitions:validate", good, bad)
    result = run("define", "a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert "b.yaml is not a valid definition: 1 fault\nshardmill:   /steps: is required" in result.stderr
    assert {each.method for each in api.requests} == {"POST"}


def test_definitions_are_listed(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/definitions", page(listed(description="line\nbreak\x1b[31m")))
    result = run("definitions")
    heading, row = result.stdout.splitlines()
    assert heading.split() == ["JOB", "VERSION", "STEPS", "UPDATED", "USER", "DESCRIPTION"]
    assert row.split() == ["report", "3", "2", "2026-11-16T02:17:19Z", "admin", "line", "break", "[31m"]
    assert json.loads(run("definitions", "--json").stdout)[0]["version"] == 3


def test_graph_of_a_saved_definition_and_of_a_file(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET", "/v1/definitions/report", saved())
    assert run("graph", "report").stdout == "report\n  main \u00d74 noop\n"
    (tmp_path / "a.yaml").write_text("jobName: a\nsteps: [{stepName: x}, {stepName: y, dependentStep: x}]\n")
    result = offline("graph", "a.yaml", "--json", "--format", "dot")
    found = json.loads(result.stdout)
    assert found["edges"] == [{"from": "x", "to": "y"}]
    assert found["text"].startswith('digraph "a" {')
    missing = offline("graph", "./nowhere")
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True), missing.stderr
    (tmp_path / "bad.yaml").write_text("jobName: a\n")
    assert "/steps: is required" in offline("graph", "bad.yaml").stderr


def test_define_reports_a_suspended_definition(
    api: FakeApi, run: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.yaml").write_text("jobName: report\nsteps: [{stepName: main}]\n")
    api.on("POST", "/v1/definitions:validate", {"valid": True, "faults": []})
    api.on("PUT", "/v1/definitions/report", saved(suspended=WHY))
    assert output_of(run("define", "report.yaml")) == f"report version 3 saved: 1 step, 4 tasks; {SHOWN}\n"
