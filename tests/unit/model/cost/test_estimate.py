"""What a definition would cost, and the quota that it meets first."""

import pytest

from shardmill.model.cost.aws_operations import StepLoad
from shardmill.model.cost.estimate import Quota, estimate, quotas
from shardmill.model.definition.fields import JobDefine
from shardmill.model.definition.validation import check_definition


def definition(*steps: dict[str, object], **job: object) -> JobDefine:
    found, faults = check_definition({"jobName": "report", "steps": list(steps), **job})
    assert not faults
    assert found
    return found


def test_the_number_of_tasks_comes_from_the_definition_or_is_given() -> None:
    given = definition(
        {"stepName": "a", "sharding": 12},
        {"stepName": "b", "sharding": "{{ params.n }}"},
        {"stepName": "c", "items": ["x", "y"]},
        params={"n": 3},
    )
    found = estimate(given, {})
    assert (found.tasks, found.assumed) == ({"a": 12, "b": 1, "c": 2}, ["b"])
    found = estimate(given, {"a": 1_000, "b": 7})
    assert (found.tasks, found.assumed) == ({"a": 1_000, "b": 7, "c": 2}, [])


def test_more_tasks_cost_more() -> None:
    given = definition({"stepName": "a"})
    few, many = estimate(given, {"a": 10}).cost, estimate(given, {"a": 10_000}).cost
    assert few.usd < many.usd < many.usd_at_most


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        ([StepLoad(1)], "Step Functions StartExecution"),
        ([StepLoad(200, window=10)], "DynamoDB writes for the tasks of one step"),
        ([StepLoad(300_000, window=300_000)], "DynamoDB writes for the tasks of one step"),
        ([StepLoad(1)] * 100, "Step Functions StartExecution"),
        ([StepLoad(1_000, lambda_seconds=0.0)], "Lambda workers of a lane"),
    ],
)
def test_the_quota_that_is_met_first_is_listed_first(steps: list[StepLoad], first: str) -> None:
    found = quotas(steps)
    assert found[0].name == first
    assert [quota.share for quota in found] == sorted((quota.share for quota in found), reverse=True)


def test_a_window_above_the_messages_in_flight_exceeds_the_quota() -> None:
    found = {quota.name: quota for quota in quotas([StepLoad(300_000, window=300_000)])}
    in_flight: Quota = found["SQS messages in flight"]
    assert (in_flight.used, in_flight.share) == (300_000, 2.5)
