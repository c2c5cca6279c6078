"""The operations and the bill of a job on AWS."""

import json

import pytest

from shardmill.engine.tasks.fair_share import DEFAULT_WINDOW as WINDOW_OF_A_STEP
from shardmill.engine.views.cost import cost_of_steps
from shardmill.local.sam_template import load_template
from shardmill.model.cost import aws_operations as counted
from shardmill.model.cost.aws_operations import StepLoad, operations
from shardmill.model.cost.prices import PRICES, bill, total
from shardmill.model.job import Job
from support.fakes.api import job, step
from support.paths import PROJECT


def states_of(machine: str) -> int:
    """Count the states of a successful execution, without a Map."""
    states = json.loads((PROJECT / "statemachine" / f"{machine}.asl.json").read_text())
    name, count = states["StartAt"], 0
    while name:
        count += 1
        state = states["States"][name]
        name = state.get("Next") or state.get("Default")
    return count


def test_the_states_are_those_of_the_state_machines() -> None:
    assert states_of("job") == counted.JOB_STATES
    assert states_of("step") == counted.STEP_STATES
    assert counted.DEFAULT_WINDOW == WINDOW_OF_A_STEP


def test_the_bill_is_quantity_times_price() -> None:
    counts = operations([StepLoad(12), StepLoad(1)], api_requests=10)
    assert set(counts) == set(PRICES)
    assert counts["Step Functions transitions"] == 2 + 2 * 4
    assert counts["Lambda requests"] == 1 + 2 + 2 * 10
    assert counts["SQS requests"] == 3 * (2 + 1)
    cost = bill(counts, counts)
    assert {item.what: item.usd for item in cost.items}["HTTP API requests"] == pytest.approx(10e-6)
    assert cost.usd == pytest.approx(sum(item.usd for item in cost.items))
    assert {item.service for item in cost.items} >= {"Step Functions", "Lambda", "DynamoDB", "SQS"}


def test_a_large_window_is_sent_in_ranges() -> None:
    assert StepLoad(100).transitions == 4
    assert StepLoad(101).transitions == 4 + 2
    assert StepLoad(10_000).transitions == 4 + 2
    assert StepLoad(10_000, window=10_000).transitions == 4 + 11


def test_a_million_more_tasks_cost_what_the_benchmark_measures() -> None:
    """0.35 USD in order and 1.31 USD scattered, without output (docs/performance.md)."""

    def more(*, scattered: bool) -> float:
        few, many = StepLoad(1_000, prints=False), StepLoad(1_001_000, prints=False)
        return total(operations([many], scattered=scattered)) - total(operations([few], scattered=scattered))

    assert more(scattered=False) == pytest.approx(0.35, rel=0.1)
    assert more(scattered=True) == pytest.approx(1.31, rel=0.1)


def test_the_computing_time_of_lambda_workers_is_billed() -> None:
    ran = {"counts": {"SUCCESS": 20}, "workerGroups": ["lambda"], "computeTime": 3_600.0}
    ended = Job.model_validate(job("SUCCESS", step("a", "SUCCESS", 20, 20, **ran)))
    elsewhere, on_lambda = (cost_of_steps(ended.steps, {"lambda": kind}) for kind in ("pull", "lambda"))
    assert on_lambda.usd - elsewhere.usd == pytest.approx(3_600 * 13.3334e-6 + 2 * 0.2e-6)


def test_steps_that_have_not_leased_a_task_cost_no_messages() -> None:
    opened = Job.model_validate(job("RUNNING", step("a", "RUNNING", 20, 0, counts={"READY": 20})))
    items = {item.what for item in cost_of_steps(opened.steps, {}).items}
    assert "SQS requests" not in items


def test_memory_sizes_are_those_of_the_template() -> None:
    template = load_template(PROJECT / "template.yaml")
    functions = {
        name: resource["Properties"] for name, resource in template["Resources"].items() if "Function" in name
    }
    default = template["Globals"]["Function"]["MemorySize"]

    def gigabytes(name: str) -> float:
        return float(functions[name].get("MemorySize", default)) / 1024

    assert gigabytes("OrchestrateFunction") == counted.ORCHESTRATE_GB
    assert gigabytes("RunnerFunction") == counted.RUNNER_GB
    assert gigabytes("ApiFunction") == counted.API_GB
    assert gigabytes("AuthorizerFunction") == counted.AUTHORIZER_GB
