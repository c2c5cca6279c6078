"""Tasks that are functions on Lambda: invoked by name, with the task as their event."""

from __future__ import annotations

import base64
import json
from concurrent.futures import Future
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any

import boto3
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

from shardmill.model.definition import step_types
from shardmill.model.worker import Lease, Outcome
from shardmill.worker.task.limits import Bounds
from shardmill.worker.task.outcome import Finding
from shardmill.worker.task.workdir import Place

if TYPE_CHECKING:
    from types_boto3_lambda import LambdaClient

_Answer = tuple[Finding, bytes, bytes]
_LONGEST_SECONDS = 15 * 60
_EVENT = {
    *("task_id", "attempt", "job_name", "trigger", "job_id", "step_name", "sharding", "pack", "params"),
    *("data_time", "execute_user"),
}
_NO_ACCESS = (
    *(NoCredentialsError, NoRegionError, PartialCredentialsError, ProfileNotFound),
    CredentialRetrievalError,
)
# What Lambda says, and what it means for the task; all else may go better next time.
_REFUSALS: dict[str, Outcome] = {
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
    """A call that had no answer is not repeated: the function may have run."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=5,
        read_timeout=_LONGEST_SECONDS + 30,
        max_pool_connections=128,
        tcp_keepalive=True,
    )
    return boto3.Session().client("lambda", config=config)


def invoke(lease: Lease, place: Place, bounds: Bounds) -> Finding:
    """Invoke the function of a task and wait for its answer; one that is cut short runs on by itself.

    Its answer becomes stdout, the end of its log stderr.
    """
    content = step_types.lambda_(lease.content)
    event = {**lease.model_dump(mode="json", include=_EVENT), "payload": content.payload}
    answer: Future[_Answer] = Future()

    def call() -> None:
        try:
            answer.set_result(_call(content.function, json.dumps(event)))
        except Exception as error:
            answer.set_exception(error)

    for path in place.streams.values():
        path.touch()
    Thread(target=call, name=f"invoke {lease.task_id}", daemon=True).start()
    if why := bounds.await_end(answer.done):
        return Finding("failed", why)
    finding, payload, log = answer.result()
    place.streams["stdout"].write_bytes(payload)
    place.streams["stderr"].write_bytes(log)
    return finding


def _call(function: str, event: str) -> _Answer:
    try:
        answer = _client().invoke(FunctionName=function, Payload=event, LogType="Tail")
        payload = answer["Payload"].read()
    except _NO_ACCESS as error:
        return Finding("rejected", f"this worker cannot invoke functions on AWS: {error}"), b"", b""
    except ClientError as error:
        outcome = _REFUSALS.get(error.response["Error"]["Code"], "failed")
        return Finding(outcome, f"function {function}: {error}"), b"", b""
    except BotoCoreError as error:
        return Finding("failed", f"function {function}: {error}"), b"", b""
    log = base64.b64decode(answer.get("LogResult", ""))
    if "FunctionError" in answer:
        return Finding("failed", f"function {function} failed: {_said(payload)}"), payload, log
    return Finding("success"), payload, log


def _said(payload: bytes) -> str:
    """The words of a function that failed."""
    try:
        told: Any = json.loads(payload)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return payload[:500].decode(errors="replace")
    return ": ".join(str(told[name]) for name in ("errorType", "errorMessage") if told.get(name))
