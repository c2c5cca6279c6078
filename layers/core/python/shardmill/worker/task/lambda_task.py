"""Tasks that invoke a Lambda function, with the task as its event."""

from __future__ import annotations

import base64
import json
from concurrent.futures import Future
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from shardmill.aws import credentials
from shardmill.model.definition import step_types
from shardmill.model.worker import Lease, Outcome
from shardmill.worker.outcome import AttemptOutcome
from shardmill.worker.task.bounds import Bounds
from shardmill.worker.task.workdir import TaskDir

if TYPE_CHECKING:
    from types_boto3_lambda import LambdaClient

_Response = tuple[AttemptOutcome, bytes, bytes]
_MAX_SECONDS = 15 * 60
_EVENT = {
    *("task_id", "attempt", "job_name", "trigger", "job_id", "step_name", "sharding", "pack", "params"),
    *("data_time", "execute_user"),
}
_NO_ACCESS = (
    *(NoCredentialsError, NoRegionError, PartialCredentialsError, ProfileNotFound),
    CredentialRetrievalError,
)
# The outcome for each error code of Lambda; all others may succeed after a retry.
_OUTCOMES: dict[str, Outcome] = {
    "AccessDeniedException": "rejected",
    "ExpiredTokenException": "rejected",
    "InvalidClientTokenId": "rejected",
    "UnrecognizedClientException": "rejected",
    "ResourceNotFoundException": "failed-permanent",
    "InvalidParameterValueException": "failed-permanent",
    "InvalidRequestContentException": "failed-permanent",
    "RequestTooLargeException": "failed-permanent",
    "ValidationException": "failed-permanent",
}


@cache
def _client() -> LambdaClient:
    """A client without retries: a function whose response was lost may have run."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=5,
        read_timeout=_MAX_SECONDS + 30,
        max_pool_connections=128,
        tcp_keepalive=True,
    )
    return credentials.new_session().client("lambda", config=config)


def invoke(lease: Lease, task_dir: TaskDir, bounds: Bounds) -> AttemptOutcome:
    """Invoke the function of a task and wait for its response, which becomes stdout; its log becomes stderr.

    A function that times out or is stopped here continues to run on Lambda.
    """
    content = step_types.lambda_(lease.content)
    event = {**lease.model_dump(mode="json", include=_EVENT), "payload": content.payload}
    response: Future[_Response] = Future()

    def call() -> None:
        try:
            response.set_result(_call(content.function, json.dumps(event)))
        except Exception as error:
            response.set_exception(error)

    for path in task_dir.streams.values():
        path.touch()
    Thread(target=call, name=f"invoke {lease.task_id}", daemon=True).start()
    if reason := bounds.wait(response.done):
        return AttemptOutcome("failed", reason)
    outcome, payload, log = response.result()
    task_dir.streams["stdout"].write_bytes(payload)
    task_dir.streams["stderr"].write_bytes(log)
    return outcome


def _call(function: str, event: str) -> _Response:
    try:
        response = _client().invoke(FunctionName=function, Payload=event, LogType="Tail")
        payload = response["Payload"].read()
    except _NO_ACCESS as error:
        return AttemptOutcome("rejected", f"this worker cannot invoke Lambda functions: {error}"), b"", b""
    except ClientError as error:
        outcome = _OUTCOMES.get(error.response["Error"]["Code"], "failed")
        return AttemptOutcome(outcome, f"function {function}: {error}"), b"", b""
    except BotoCoreError as error:
        return AttemptOutcome("failed", f"function {function}: {error}"), b"", b""
    log = base64.b64decode(response.get("LogResult", ""))
    if "FunctionError" in response:
        return AttemptOutcome("failed", f"function {function} failed: {_error_of(payload)}"), payload, log
    return AttemptOutcome("success"), payload, log


def _error_of(payload: bytes) -> str:
    """The error that a function returned."""
    try:
        error: Any = json.loads(payload)
    except ValueError:
        error = None
    if not isinstance(error, dict):
        return payload[:500].decode(errors="replace")
    return ": ".join(str(error[name]) for name in ("errorType", "errorMessage") if error.get(name))
