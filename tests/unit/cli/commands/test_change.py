"""priority."""

import json

import pytest

from support.fakes.api import FakeApi, Run, job, output_of


@pytest.mark.parametrize("number", [10, 0, -5])
def test_priority_is_any_integer(api: FakeApi, run: Run, number: int) -> None:
    api.on("POST", "/v1/jobs/report/t1:priority", job("RUNNING", priority=number))
    printed = output_of(run("priority", "report", "t1", str(number)))
    assert printed == f"report t1 RUNNING priority {number}\n"
    assert api.requests[-1].document == {"priority": number}
    assert json.loads(output_of(run("priority", "report", "t1", str(number), "--json")))["priority"] == number
