"""State machines: executions start through the alias, and are found by the ARN of their state machine."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from shardmill.aws.machines import Machines

BASE = "arn:aws:states:us-east-1:123456789012"
JOB, STEP = f"{BASE}:stateMachine:mill-job", f"{BASE}:stateMachine:mill-step"
ID = "00000000-0000-4000-8000-000000000001"
STARTED = {"executionArn": f"{BASE}:execution:mill-job:{ID}-r1", "startDate": 0}
Make = Callable[[str], Machines]


@pytest.fixture
def step_functions() -> Iterator[tuple[Stubber, Make]]:
    client = boto3.client("stepfunctions", region_name="us-east-1")
    with Stubber(client) as stub:
        yield stub, lambda alias: Machines(client, JOB, STEP, alias)
        stub.assert_no_pending_responses()


def start_of(
    machine: str, name: str = f"{ID}-r1", given: str = f'{{"jobId":"{ID}","run":1}}'
) -> dict[str, Any]:
    return {"stateMachineArn": machine, "name": name, "input": given}


@pytest.mark.parametrize(("alias", "machine"), [("live", f"{JOB}:live"), ("", JOB)])
def test_a_job_starts_through_the_alias_if_there_is_one(
    step_functions: tuple[Stubber, Make], alias: str, machine: str
) -> None:
    stub, machines = step_functions
    stub.add_response("start_execution", STARTED, start_of(machine))
    machines(alias).start_job(ID, 1)


def test_a_step_starts_through_the_alias(step_functions: tuple[Stubber, Make]) -> None:
    stub, machines = step_functions
    given = f'{{"jobId":"{ID}","run":1,"step":2,"pk":"p","sk":"s"}}'
    stub.add_response("start_execution", STARTED, start_of(f"{STEP}:live", f"{ID}-r1-s2", given))
    machines("live").start_step(ID, 1, 2, {"pk": "p", "sk": "s"})


def test_a_name_that_is_taken_is_a_success_through_the_alias(step_functions: tuple[Stubber, Make]) -> None:
    """Names are unique for the state machine, so a start before an update is not repeated after it."""
    stub, machines = step_functions
    stub.add_client_error("start_execution", "ExecutionAlreadyExists")
    machines("live").start_job(ID, 1)


def test_the_newest_definition_is_used_until_the_first_update_creates_the_alias(
    step_functions: tuple[Stubber, Make],
) -> None:
    stub, machines = step_functions
    stub.add_client_error(
        "start_execution", "StateMachineDoesNotExist", expected_params=start_of(f"{JOB}:live")
    )
    stub.add_response("start_execution", STARTED, start_of(JOB))
    machines("live").start_job(ID, 1)


def test_a_state_machine_that_does_not_exist_is_an_error(step_functions: tuple[Stubber, Make]) -> None:
    stub, machines = step_functions
    for _ in range(2):
        stub.add_client_error("start_execution", "StateMachineDoesNotExist")
    with pytest.raises(Exception, match="StateMachineDoesNotExist"):
        machines("live").start_job(ID, 1)


def test_executions_of_every_version_are_listed_described_and_stopped(
    step_functions: tuple[Stubber, Make],
) -> None:
    """Their ARNs have no alias; and those of an earlier release were started without one."""
    stub, machines = step_functions
    arn = f"{BASE}:execution:mill-step:{ID}-r1-s0"
    described = {
        "executionArn": arn,
        "stateMachineArn": STEP,
        "status": "RUNNING",
        "startDate": 0,
        "stateMachineAliasArn": f"{STEP}:live",
    }
    stub.add_response("describe_execution", described, {"executionArn": arn})
    stub.add_response("stop_execution", {"stopDate": 0}, {"executionArn": arn, "cause": "the Job was ended"})
    for machine in (JOB, STEP):
        asked = {"stateMachineArn": machine, "statusFilter": "RUNNING", "maxResults": 10}
        stub.add_response("list_executions", {"executions": []}, asked)
    made = machines("live")
    assert made.status(ID, 1, 0) == "RUNNING"
    made.abort(ID, 1, 0)
    assert made.stop_running(10) == 0


def test_a_state_machine_that_was_deleted_has_no_executions(step_functions: tuple[Stubber, Make]) -> None:
    stub, machines = step_functions
    stub.add_client_error("list_executions", "StateMachineDoesNotExist")
    stub.add_response("list_executions", {"executions": []})
    assert machines("live").stop_running(10) == 0


def test_executions_that_step_functions_throttles_are_left_for_the_next_call(
    step_functions: tuple[Stubber, Make],
) -> None:
    stub, machines = step_functions
    shared = {"status": "RUNNING", "startDate": 0}
    listed = [
        {"executionArn": f"{BASE}:execution:mill-job:{name}", "stateMachineArn": JOB, "name": name, **shared}
        for name in ("a", "b", "c")
    ]
    stub.add_response("list_executions", {"executions": listed})
    stub.add_response("stop_execution", {"stopDate": 0})
    stub.add_client_error("stop_execution", "ThrottlingException")
    stub.add_response("list_executions", {"executions": []})
    assert machines("live").stop_running(10) == 3  # found: the caller asks again
