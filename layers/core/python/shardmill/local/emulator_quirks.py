"""What MiniStack does otherwise than AWS, and what we do about it: one function each, with its reason.

tests/e2e/test_dev_quirks.py shows each on a plain MiniStack and fails when one is no longer needed. The
functions that take a module of MiniStack are called inside its process, before it serves.
"""

from __future__ import annotations

import contextvars
import json
import threading
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from shardmill.local.environment import REGION

START_DELAY = 0.15
LOOK_SECONDS = 0.01
RESTARTED = "States.ServiceRestart"
SAVED_SERVICES = frozenset(
    {"apigateway", "cloudformation", "dynamodb", "eventbridge", "iam", "lambda", "s3", "sqs", "stepfunctions"}
    | {"secretsmanager", "sns", "ssm"}
)


def authorizers_without_source(template: dict[str, Any]) -> None:
    """An authorizer that names no identity source gets the Authorization header as one, and with it the
    gateway's own 401 for requests without a token; on AWS it has none, and is asked every time."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::ApiGatewayV2::Authorizer":
            resource["Properties"].setdefault("IdentitySource", [])


def local_api_url(endpoint: str, api_id: str) -> str:
    """The API's own address is a host under `localhost`, which not every resolver knows: we use its path."""
    return f"{endpoint}/_aws/execute-api/{api_id}"


def tick_now(functions: Any, stack: str) -> None:
    """Over a restart, rules forget when they last fired, and wait a whole period first."""
    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "source": "aws.events",
        "account": "000000000000",
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [],
        "detail-type": "Scheduled Event",
        "detail": {},
    }
    functions.invoke(FunctionName=f"{stack}-tick", InvocationType="Event", Payload=json.dumps(event).encode())


class _Module:
    """A module, but for its sleep, which gets other seconds."""

    def __init__(self, module: Any, seconds: Callable[[float], float]) -> None:
        self._module = module
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def sleep(self, seconds: float) -> Any:
        return self._module.sleep(self._seconds(seconds))


def start_executions_at_once(stepfunctions: Any) -> None:
    """Every execution begins with a fixed sleep of 0.15 s: a chain of 100 steps would sleep for 15 s."""
    stepfunctions.time = _Module(stepfunctions.time, lambda seconds: 0 if seconds == START_DELAY else seconds)


def answer_receives_soon(sqs: Any) -> None:
    """A waiting receive looks for messages each 0.1 s; on AWS a message ends the wait as it arrives."""
    sqs.asyncio = _Module(sqs.asyncio, lambda seconds: min(seconds, LOOK_SECONDS))


def keep_executions(stepfunctions: Any) -> Callable[[], None]:
    """Executions that ran when the emulator stopped come back as FAILED, with no event and their tokens gone.
    On AWS nothing of the kind happens. They run again from their first state, which is harmless: every state
    of ours can be repeated. The function returned does that, and is called when the server answers."""
    restore = stepfunctions._restore_state
    interrupted: list[Any] = []

    def restore_and_note(data: dict[str, Any]) -> None:
        restore(data)
        for execution in stepfunctions._executions.all_values():
            if execution.get("error") == RESTARTED:
                execution.update(status="RUNNING", stopDate=None)
                del execution["error"], execution["cause"]
                interrupted.append(execution)

    def run_again() -> None:
        while interrupted:
            execution = interrupted.pop()
            _in_scope_of(execution["executionArn"], stepfunctions._run_execution)

    stepfunctions._restore_state = restore_and_note
    return run_again


def _in_scope_of(arn: str, run: Callable[[str], None]) -> None:
    """Account and region are context variables in MiniStack; a thread of its own starts without them."""
    from importlib import import_module

    responses = import_module("ministack.core.responses")
    region, account = arn.split(":")[3:5]
    context = contextvars.copy_context()
    context.run(responses.set_request_account_id, account)
    context.run(responses.set_request_region, region)
    threading.Thread(target=context.run, args=(run, arn), daemon=True, name=arn).start()


def release_stacks(cloudformation: Any) -> None:
    """A stack that was being updated when the emulator ended would be so for ever: allow a new update."""
    restore = cloudformation._restore_state

    def restore_and_release(data: dict[str, Any]) -> None:
        restore(data)
        for stack in cloudformation._stacks.all_values():
            if stack["StackStatus"].endswith("_IN_PROGRESS"):
                stack["StackStatus"] = "UPDATE_ROLLBACK_COMPLETE"

    cloudformation._restore_state = restore_and_release


def save_only(app: Any, services: Iterable[str]) -> None:
    """It saves and loads every service that CloudFormation knows, which slows start and stop; and its log
    service keeps every line ever logged, for ever."""
    wanted = set(services)
    for key in set(app._state_map) - wanted:
        del app._state_map[key]


def without_docker(app: Any) -> None:
    """Where there is a Docker daemon, it removes containers there at start and stop. We never use it."""
    app._docker_socket_present = lambda: False
