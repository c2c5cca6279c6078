"""submit --requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.fakes.api import FakeApi, Reply, Request, Run, problem

BATCH = "/v1/jobs:batch"


def answer(request: Request) -> Reply:
    """Refuse triggers that begin with `bad`; those with `old` exist already."""
    return Reply({"items": [item(each) for each in request.document["requests"]]})


def item(request: dict[str, Any]) -> dict[str, Any]:
    trigger = request["trigger"]
    if trigger.startswith("bad"):
        faults = [{"pointer": "/x", "code": "unknown-field", "message": "unknown field"}]
        return {"status": 422, "job": None, "problem": {"detail": "no", "faults": faults}}
    known = {"id": "i", "jid": 1, "jobName": request["jobName"], "trigger": trigger, "state": "INIT"}
    return {"status": 200 if trigger.startswith("old") else 202, "job": known, "problem": None}


def lines(*triggers: str) -> str:
    return "".join(json.dumps({"jobName": "report", "trigger": each}) + "\n" for each in triggers)


@pytest.fixture
def batch(api: FakeApi) -> FakeApi:
    api.on("POST", BATCH, answer)
    return api


def test_every_line_of_a_file_is_submitted_in_batches(batch: FakeApi, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(*(f"t{n}" for n in range(250))))
    result = run("submit", "--requests", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[::249] == ["report t0 INIT", "report t249 INIT"]
    assert result.stderr.endswith("250 submitted, 0 existed already, 0 refused\n")
    assert [len(each.document["requests"]) for each in batch.requests] == [100, 100, 50]


def test_refused_lines_are_named_and_the_others_submitted(batch: FakeApi, run: Run) -> None:
    given = lines("t1") + "\n{\n[1]\n" + lines("bad", "old", "t2")
    result = run("submit", "--requests", "-", input=given)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["report t1 INIT", "report old INIT", "report t2 INIT"]
    for text in ("line 3: not valid JSON", "line 4: not a JSON object", "line 5: no", "/x: unknown field"):
        assert text in result.stderr
    assert "2 submitted, 1 existed already, 3 refused" in result.stderr


def test_json_output_has_a_line_for_each_request(batch: FakeApi, run: Run) -> None:
    result = run("submit", "--requests", "-", "--json", input=lines("t1", "bad"))
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["line"], first["status"], first["job"]["trigger"]) == (1, 202, "t1")
    assert (second["line"], second["status"], second["problem"]["detail"]) == (2, 422, "no")


def test_large_requests_are_sent_in_smaller_batches(batch: FakeApi, run: Run) -> None:
    large = {"jobName": "report", "params": {"x": "x" * 400_000}}
    given = "".join(json.dumps({**large, "trigger": f"t{n}"}) + "\n" for n in range(5))
    assert run("submit", "--requests", "-", input=given).exit_code == 0
    assert [len(each.document["requests"]) for each in batch.requests] == [2, 2, 1]


@pytest.mark.parametrize(
    "more", [["report"], ["--trigger", "t"], ["--param", "a=1"], ["--file", "a=b"], ["--wait"]]
)
def test_requests_cannot_be_combined_with_the_options_of_one_job(run: Run, more: list[str]) -> None:
    result = run("submit", "--requests", "-", *more, input="")
    assert (result.exit_code, "cannot be combined" in result.stderr) == (2, True)


def test_a_missing_file_and_a_missing_job_are_usage_errors(run: Run, tmp_path: Path) -> None:
    assert run("submit", "--requests", str(tmp_path / "none")).exit_code == 2
    assert run("submit").exit_code == 2


def test_an_error_of_a_whole_batch_ends_the_command(api: FakeApi, run: Run) -> None:
    api.on("POST", BATCH, problem(401, "unauthorized"))
    assert run("submit", "--requests", "-", input=lines("t1")).exit_code == 1
