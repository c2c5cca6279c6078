"""Differences between MiniStack and AWS: one function each corrects one, and says why.

tests/e2e/test_dev_quirks.py shows each on a plain MiniStack and fails when one is no longer needed.
Functions that take a module of MiniStack are called in its process before it serves.
"""

from __future__ import annotations

import contextvars
import hashlib
import json
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from shardmill.local.dev_commands import WaitingReceives
from shardmill.local.environment import REGION

START_DELAY = 0.15
RESTARTED = "States.ServiceRestart"
RESUMED_TOGETHER = 2
KEPT_EXECUTIONS = 100
KEPT_LOG_STREAMS = 50
KEPT_POINTS = 500
MAX_BODY_BYTES = 100_000_000
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


def pass_large_bodies(template: dict[str, Any]) -> None:
    """Let the API function take and return files of 100 MB. The limits of API Gateway and Lambda, which
    MiniStack does not have, apply on AWS only; AWE clients have no other way to upload their outputs."""
    function = template["Resources"].get("ApiFunction", {}).get("Properties", {})
    if "Environment" in function:
        function["Environment"]["Variables"]["SHARDMILL_MAX_BODY_BYTES"] = str(MAX_BODY_BYTES)


def concurrency_as_numbers(template: dict[str, Any], parameters: Mapping[str, str]) -> None:
    """Replace references to parameters by numbers. MiniStack would compare the text of the parameter with a
    number, and the event source mapping would never invoke its function. No concurrency is reserved here."""
    for resource in template["Resources"].values():
        scaling = resource["Properties"].get("ScalingConfig", {})
        reference = scaling.get("MaximumConcurrency")
        if isinstance(reference, dict):
            reference = reference["Fn::If"][2] if "Fn::If" in reference else reference
            scaling["MaximumConcurrency"] = int(parameters[reference["Ref"]])


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
    """A module with a `sleep` that waits for a different time."""

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


def wake_waiting_receives(sqs: Any) -> None:
    """Make long polling look for messages as soon as one is sent or released, as AWS does, not only every
    0.1 s. MiniStack wakes the pollers of its event source mappings at these moments, but not receivers."""
    sqs.asyncio = sqs.esm_wake = WaitingReceives(sqs.asyncio, sqs.esm_wake)


class InterruptedExecutions:
    """Executions that a stop of the emulator interrupted, to be resumed a few at a time.

    MiniStack restores them as FAILED, without an event and without their task tokens. They run again from
    their first state, which is safe because every state is idempotent. An execution that waits for a token
    or for a time makes room for the next."""

    def __init__(self, stepfunctions: Any) -> None:
        self._stepfunctions = stepfunctions
        self._arns: list[str] = []
        self._slots = threading.BoundedSemaphore(RESUMED_TOGETHER)
        for waits in ("_invoke_with_callback", "_execute_wait"):
            setattr(stepfunctions, waits, _without_slot(getattr(stepfunctions, waits)))

    def find(self) -> None:
        """Find interrupted executions; call it after the state is restored and before a new execution
        starts."""
        for execution in self._stepfunctions._executions.all_values():
            if execution.get("error") == RESTARTED:
                execution.update(status="RUNNING", stopDate=None)
                del execution["error"], execution["cause"]
            if execution["status"] == "RUNNING":
                self._arns.append(execution["executionArn"])

    def resume(self) -> None:
        """Resume the executions. Call it in a thread once the API answers, because it waits for slots."""
        while self._arns:
            self._slots.acquire()
            run = _holding(self._slots, self._stepfunctions._run_execution)
            _run_in_scope(self._arns.pop(0), run)


_release_slot: contextvars.ContextVar[Callable[[], None] | None] = contextvars.ContextVar(
    "release_slot", default=None
)


def _holding(slots: threading.BoundedSemaphore, run: Callable[[str], None]) -> Callable[[str], None]:
    """A function that releases a slot when it ends, or when it calls a function made by `_without_slot`."""

    def held(arn: str) -> None:
        released = threading.Lock()

        def release() -> None:
            if released.acquire(blocking=False):
                slots.release()

        _release_slot.set(release)
        try:
            run(arn)
        finally:
            release()

    return held


def _without_slot(wait: Callable[..., Any]) -> Callable[..., Any]:
    def release_and_wait(*arguments: Any, **options: Any) -> Any:
        if release := _release_slot.get():
            release()
        return wait(*arguments, **options)

    return release_and_wait


def _run_in_scope(arn: str, run: Callable[[str], None]) -> None:
    """Set the account and region, context variables in MiniStack that a new thread does not inherit."""
    from importlib import import_module

    responses = import_module("ministack.core.responses")
    region, account = arn.split(":")[3:5]
    context = contextvars.copy_context()
    context.run(responses.set_request_account_id, account)
    context.run(responses.set_request_region, region)
    threading.Thread(target=context.run, args=(run, arn), daemon=True, name=arn).start()


class EndedExecutions:
    """Executions that have ended, of which only the latest keep their input, output and history.

    MiniStack keeps everything until its state is deleted; AWS for 90 days. Names stay taken, as there."""

    def __init__(self, stepfunctions: Any) -> None:
        self._executions = stepfunctions._executions
        self._latest: deque[dict[str, Any]] = deque()
        emit = stepfunctions._emit_execution_status_event

        def emit_and_note(execution: dict[str, Any]) -> None:
            emit(execution)
            if execution["status"] != "RUNNING":
                self._note(execution)

        stepfunctions._emit_execution_status_event = emit_and_note

    def find(self) -> None:
        """Find ended executions; call it after the state is restored and interrupted ones are separated."""
        known = self._executions.all_values()
        ended = [each for each in known if each["status"] != "RUNNING" and each["input"] is not None]
        for execution in sorted(ended, key=lambda each: str(each["stopDate"])):
            self._note(execution)

    def _note(self, execution: dict[str, Any]) -> None:
        self._latest.append(execution)
        while len(self._latest) > KEPT_EXECUTIONS:
            self._reduce(self._latest.popleft())

    def _reduce(self, execution: dict[str, Any]) -> None:
        """Replace the execution instead of changing it: a snapshot can be taken at any moment, and the thread
        of a stopped execution can still add events."""
        arn = execution["executionArn"]
        region, account = arn.split(":")[3:5]
        if self._executions.get_scoped(account, region, arn) is execution:
            self._executions.set_scoped(account, region, arn, _reduced(execution))


def _reduced(execution: dict[str, Any]) -> dict[str, Any]:
    names = ("executionArn", "stateMachineArn", "name", "status", "startDate", "stopDate", "error")
    return {name: execution.get(name) for name in names} | {"input": None, "output": None, "events": []}


def keep_no_events(eventbridge: Any) -> None:
    """Append events to a new list each time: MiniStack keeps all in one, which nothing reads."""
    eventbridge._events_log_list = list


def limit_log_streams(functions: Any, logs: Any) -> None:
    """Keep the latest log streams of each group: MiniStack makes one for every invocation, and keeps all."""
    emit = functions._emit_lambda_logs

    def emit_and_remove(*arguments: Any, **options: Any) -> None:
        emit(*arguments, **options)
        with logs._log_events_lock:
            for group in logs._log_groups.all_values():
                streams = group["streams"]
                for name in list(streams)[:-KEPT_LOG_STREAMS]:
                    del streams[name]

    functions._emit_lambda_logs = emit_and_remove


def limit_metrics(metrics: Any) -> None:
    """Keep the latest points of each metric: MiniStack keeps the points of two weeks, several per
    invocation."""
    find = metrics._metric_bucket

    def find_and_remove(key: Any) -> list[Any]:
        points: list[Any] = find(key)
        if len(points) >= 2 * KEPT_POINTS:
            del points[:-KEPT_POINTS]
        return points

    metrics._metric_bucket = find_and_remove


class _Digest:
    """Compares equal to the request that it was made from, without storing it."""

    __slots__ = ("_digest",)

    def __init__(self, request: Any) -> None:
        self._digest = _digest(request)

    def __eq__(self, request: object) -> bool:
        return self._digest == _digest(request)

    __hash__ = None  # type: ignore[assignment]


def _digest(request: Any) -> bytes:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()


def keep_transaction_digests(dynamodb: Any) -> None:
    """Keep a digest of each transaction for the ten minutes in which its token may be repeated: MiniStack
    keeps the request, more memory than the rows that it writes."""
    store = dynamodb._txn_token_store

    def store_digest(token: str, entry: dict[str, Any]) -> None:
        store(token, entry | {"signature": _Digest(entry["signature"])})

    dynamodb._txn_token_store = store_digest


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
