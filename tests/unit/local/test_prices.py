"""The cost estimate of a job on AWS."""

import json

import pytest

from shardmill.local import prices
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


def test_bill_counts_the_states_of_the_state_machines() -> None:
    assert states_of("job") == prices.JOB_STATES
    assert states_of("step") == prices.STEP_STATES


def test_bill_is_quantity_times_price() -> None:
    ended = Job.model_validate(job("SUCCESS", step("a", "SUCCESS", 12, 12), step("b", "SUCCESS", 1, 1)))
    items = {item.what: item for item in prices.bill(ended, api_calls=10)}
    assert set(items) == set(prices.USD_PER_MILLION)
    assert items["Step Functions transitions"].count == 2 + 2 * 4
    assert items["Lambda requests"].count == 1 + 2 * 1 + 2 * 10
    assert items["HTTP API requests"].usd == pytest.approx(10e-6)
    assert prices.total(list(items.values())) == pytest.approx(sum(item.usd for item in items.values()))


def test_bill_of_a_million_tasks_is_near_the_budget() -> None:
    ended = Job.model_validate(job("SUCCESS", step("a", "SUCCESS", 1_000_000, 1_000_000)))
    assert 1 < prices.total(prices.bill(ended, api_calls=3)) < 30
