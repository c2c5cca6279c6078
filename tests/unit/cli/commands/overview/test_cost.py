"""cost and estimate."""

import json
from pathlib import Path

import pytest

from support.fakes.api import FakeApi, Run, offline, output_of
from support.paths import PROJECT

EXAMPLE = str(PROJECT / "examples" / "balance-report.yaml")
COST = {
    "region": "us-east-1",
    "pricesAsOf": "2025-11",
    "usd": 0.0003,
    "usdAtMost": 0.0004,
    "items": [
        {"service": "DynamoDB", "what": "DynamoDB write units", "count": 71.5, "usd": 0.0000447},
        {"service": "SQS", "what": "SQS requests", "count": 9, "usd": 0.0000036},
    ],
}


def test_cost_is_listed_by_service(api: FakeApi, run: Run) -> None:
    api.on("GET", "/v1/jobs/report/t1:cost", COST)
    text = output_of(run("cost", "report", "t1"))
    assert "Estimated cost on AWS: 0.000300 USD, at most 0.000400 USD" in text
    assert "DynamoDB  write units  72      0.0000447" in text
    assert json.loads(output_of(run("cost", "report", "t1", "--json")))["usd"] == 0.0003


def test_estimate_works_without_a_server() -> None:
    text = output_of(offline("estimate", EXAMPLE))
    assert "balance-report: 2 steps; tasks: generate_files 12, merge_files 1" in text
    assert "The first quota that it meets: Step Functions StartExecution, 100 jobs per second." in text
    text = output_of(offline("estimate", EXAMPLE, "--sharding", "generate_files=100000"))
    assert "tasks: generate_files 100,000" in text
    assert "DynamoDB writes for the tasks of one step, one job takes 10 seconds or more." in text
    found = json.loads(output_of(offline("estimate", EXAMPLE, "--json")))
    assert found["quotas"][0]["name"] == "Step Functions StartExecution"
    assert found["cost"]["usd"] > 0


def test_estimate_says_which_numbers_it_assumes(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("jobName: x\nparams: {n: 2}\nsteps:\n  - {stepName: a, sharding: '{{ params.n }}'}\n")
    found = offline("estimate", str(file))
    assert found.exit_code == 0
    assert "the number of tasks of step a is known only when it runs" in found.stderr


@pytest.mark.parametrize("sharding", ["nope=3", "generate_files=x", "generate_files=-1", "generate_files"])
def test_invalid_sharding_exits_2(sharding: str) -> None:
    assert offline("estimate", EXAMPLE, "--sharding", sharding).exit_code == 2


def test_a_file_with_faults_exits_1(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("jobName: x\n")
    assert offline("estimate", str(file)).exit_code == 1
