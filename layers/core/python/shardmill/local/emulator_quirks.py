"""Differences between MiniStack and AWS: one function each corrects one, and says why.

tests/e2e/test_dev_quirks.py shows each on a plain MiniStack and fails when one is no longer needed.
Functions that take a module of MiniStack are called in its process before it serves.
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
POLL_SECONDS = 0.01
RESTARTED = "States.ServiceRestart"
PERSISTED_SERVICES = frozenset(
    {"apigateway", "cloudformation", "dynamodb", "eventbridge", "iam", "lambda", "s3", "sqs", "stepfunctions"}
    | {"secretsmanager", "sns", "ssm"}
)


def keep_authorizers_uncached(template: dict[str, Any]) -> None:
    """Give authorizers without an identity source an empty list. MiniStack would use the Authorization
    header and answer 401 without it; AWS calls such an authorizer for every request."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::ApiGatewayV2::Authorizer":
            resource["Properties"].setdefault("IdentitySource", [])


def local_api_url(endpoint: str, api_id: str) -> str:
    """The API's own URL has a host under `localhost`, which not every resolver knows; this one has a path."""
    return f"{endpoint}/_aws/execute-api/{api_id}"


def tick_now(functions: Any, stack: str) -> None:
    """Invoke the tick. After a restart, MiniStack's rules wait a whole period before they fire."""
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


class _ModuleWithSleep:
    """A module whose `sleep` takes other seconds."""

    def __init__(self, module: Any, seconds: Callable[[float], float]) -> None:
        self._module = module
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def sleep(self, seconds: float) -> Any:
        return self._module.sleep(self._seconds(seconds))


def skip_start_delay(stepfunctions: Any) -> None:
    """Remove the fixed sleep of 0.15 s with which every execution starts: 15 s in a chain of 100 steps."""
    stepfunctions.time = _ModuleWithSleep(
        stepfunctions.time, lambda seconds: 0 if seconds == START_DELAY else seconds
    )


def shorten_receive_polling(sqs: Any) -> None:
    """Make long polling look for messages more often than every 0.1 s; AWS returns them as they arrive."""
    sqs.asyncio = _ModuleWithSleep(sqs.asyncio, lambda seconds: min(seconds, POLL_SECONDS))


def resume_executions(stepfunctions: Any) -> Callable[[], None]:
    """Resume executions that a stop of the emulator interrupted.

    MiniStack restores them as FAILED, without an event and without their task tokens. They run again from
    their first state, which is safe because every state is idempotent. Call the function returned once the
    server answers."""
    restore = stepfunctions._restore_state
    interrupted: list[Any] = []

    def restore_and_note(data: dict[str, Any]) -> None:
        restore(data)
        for execution in stepfunctions._executions.all_values():
            if execution.get("error") == RESTARTED:
                execution.update(status="RUNNING", stopDate=None)
                del execution["error"], execution["cause"]
                interrupted.append(execution)

    def resume() -> None:
        while interrupted:
            execution = interrupted.pop()
            _run_in_scope(execution["executionArn"], stepfunctions._run_execution)

    stepfunctions._restore_state = restore_and_note
    return resume


def _run_in_scope(arn: str, run: Callable[[str], None]) -> None:
    """Set the account and region, context variables in MiniStack that a new thread does not inherit."""
    from importlib import import_module

    responses = import_module("ministack.core.responses")
    region, account = arn.split(":")[3:5]
    context = contextvars.copy_context()
    context.run(responses.set_request_account_id, account)
    context.run(responses.set_request_region, region)
    threading.Thread(target=context.run, args=(run, arn), daemon=True, name=arn).start()


def unlock_stacks(cloudformation: Any) -> None:
    """Unlock stacks whose update a stop of the emulator interrupted; they would stay IN_PROGRESS."""
    restore = cloudformation._restore_state

    def restore_and_release(data: dict[str, Any]) -> None:
        restore(data)
        for stack in cloudformation._stacks.all_values():
            if stack["StackStatus"].endswith("_IN_PROGRESS"):
                stack["StackStatus"] = "UPDATE_ROLLBACK_COMPLETE"

    cloudformation._restore_state = restore_and_release


def persist_only(app: Any, services: Iterable[str]) -> None:
    """Persist only these services. MiniStack persists all, which slows start and stop, and its log service
    never deletes a line."""
    wanted = set(services)
    for key in set(app._state_map) - wanted:
        del app._state_map[key]


def disable_docker(app: Any) -> None:
    """Keep MiniStack away from a Docker daemon, where it would remove containers at start and stop."""
    app._docker_socket_present = lambda: False
