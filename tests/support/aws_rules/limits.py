"""Limits that AWS enforces and the emulators do not, or not all of them.

SQS takes 1 MiB by now; the 256 KB that Shardmill assumes are enforced here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from support.aws_rules.call import Call
from support.aws_rules.items import MAX_ITEM_BYTES, Address, item_bytes, writes_of

MAX_MESSAGE_BYTES = 256 * 1024
MAX_STATE_BYTES = 256 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_LAMBDA_PAYLOAD_BYTES = 6 * 1024 * 1024
MAX_EXECUTION_NAME = 80
BATCH_ENTRIES = 10
BATCH_WRITES = 25
BATCH_GETS = 100
TRANSACTION_ITEMS = 100
QUEUE_NAME_BLOCKED_SECONDS = 60

_EXECUTION_NAME = re.compile(r"^[a-zA-Z0-9_-]+$")
_BATCH = re.compile(r"^(SendMessage|DeleteMessage|ChangeMessageVisibility)Batch$")

Make = Callable[[Call], dict[str, Any]]


def check_size_limits(call: Call) -> None:
    """Raise what AWS answers to a call that is too large."""
    _CHECKS.get(call.name, _no_limit)(call)
    if call.service == "sqs" and _BATCH.match(call.operation):
        _check_batch(call)


def _no_limit(call: Call) -> None:
    """Does nothing."""


def _invalid(call: Call, message: str) -> ClientError:
    return call.refused("ValidationException", message)


def _check_put(call: Call) -> None:
    if any(write.put is not None and item_bytes(write.put) > MAX_ITEM_BYTES for write in writes_of(call)):
        raise _invalid(call, "Item size has exceeded the maximum allowed size")


def _check_batch_write(call: Call) -> None:
    writes = writes_of(call)
    if len(writes) > BATCH_WRITES:
        raise _invalid(call, f"Too many items requested for the BatchWriteItem call: {len(writes)}")
    if len({write.address for write in writes}) < len(writes):
        raise _invalid(call, "Provided list of item keys contains duplicates")
    _check_put(call)


def _check_batch_get(call: Call) -> None:
    asked = sum(len(table["Keys"]) for table in call.params["RequestItems"].values())
    if asked > BATCH_GETS:
        raise _invalid(call, f"Too many items requested for the BatchGetItem call: {asked}")


def _check_transaction(call: Call) -> None:
    writes = writes_of(call)
    if len(writes) > TRANSACTION_ITEMS:
        raise _invalid(call, f"Member must have length less than or equal to {TRANSACTION_ITEMS}")
    if len({write.address for write in writes}) < len(writes):
        raise _invalid(call, "Transaction request cannot include multiple operations on one item")
    if sum(item_bytes(write.put or {}) for write in writes) > MAX_TRANSACTION_BYTES:
        raise _invalid(call, "Collection size exceeded the 4 MB of a transaction")
    _check_put(call)


def _check_start(call: Call) -> None:
    name = call.params.get("name", "")
    if name and (len(name) > MAX_EXECUTION_NAME or not _EXECUTION_NAME.match(name)):
        raise call.refused("InvalidName", f"Invalid Name: '{name}'")
    if len(call.params.get("input", "").encode()) > MAX_STATE_BYTES:
        raise _invalid(call, "Value at 'input' must have length less than or equal to 262144")


def _check_task_output(call: Call) -> None:
    if len(call.params["output"].encode()) > MAX_STATE_BYTES:
        raise _invalid(call, "Value at 'output' must have length less than or equal to 262144")


def _check_payload(call: Call) -> None:
    payload = call.params.get("Payload", b"")
    if len(payload) > MAX_LAMBDA_PAYLOAD_BYTES:
        raise call.refused(
            "RequestTooLargeException", f"Request must be smaller than 6 MB, got {len(payload)}"
        )


def _check_message(call: Call) -> None:
    if _message_bytes(call.params) > MAX_MESSAGE_BYTES:
        raise call.refused("InvalidParameterValue", "Message must be shorter than 262144 bytes.")


def _check_batch(call: Call) -> None:
    entries = call.params["Entries"]
    if not entries:
        raise call.refused("AWS.SimpleQueueService.EmptyBatchRequest", "There should be at least one entry")
    if len(entries) > BATCH_ENTRIES:
        raise call.refused(
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", f"Maximum is 10, you sent {len(entries)}"
        )
    if len({entry["Id"] for entry in entries}) < len(entries):
        raise call.refused("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", "An Id is repeated")
    if sum(map(_message_bytes, entries)) > MAX_MESSAGE_BYTES:
        raise call.refused("AWS.SimpleQueueService.BatchRequestTooLong", "Longer than 262144 bytes")


def _message_bytes(message: Mapping[str, Any]) -> int:
    attributes = message.get("MessageAttributes", {})
    return len(message.get("MessageBody", "").encode()) + len(json.dumps(attributes, default=str)) * bool(
        attributes
    )


_CHECKS: dict[str, Callable[[Call], None]] = {
    "dynamodb.PutItem": _check_put,
    "dynamodb.BatchWriteItem": _check_batch_write,
    "dynamodb.BatchGetItem": _check_batch_get,
    "dynamodb.TransactWriteItems": _check_transaction,
    "stepfunctions.StartExecution": _check_start,
    "stepfunctions.SendTaskSuccess": _check_task_output,
    "lambda.Invoke": _check_payload,
    "sqs.SendMessage": _check_message,
}


@dataclass
class TransactionConflicts:
    """Concurrent transactions on one item cancel each other, and plain writes of that item."""

    seconds: float = 0.01
    _busy: set[Address] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        if call.name == "dynamodb.TransactWriteItems":
            return self._transaction(call, make)
        addresses = {write.address for write in writes_of(call)}
        with self._lock:
            if addresses & self._busy:
                raise call.refused("TransactionConflictException", "Transaction is ongoing for the item")
        return make(call)

    def _transaction(self, call: Call, make: Make) -> dict[str, Any]:
        addresses = [write.address for write in writes_of(call)]
        with self._lock:
            taken = [address in self._busy for address in addresses]
            if any(taken):
                codes = ["TransactionConflict" if each else "None" for each in taken]
                raise call.refused(
                    "TransactionCanceledException",
                    f"Transaction cancelled, please refer cancellation reasons [{', '.join(codes)}]",
                    CancellationReasons=[{"Code": code} for code in codes],
                )
            self._busy.update(addresses)
        try:
            time.sleep(self.seconds)
            return make(call)
        finally:
            with self._lock:
                self._busy.difference_update(addresses)


@dataclass
class Executions:
    """A name stays taken after its execution ended, and a token can be given back once."""

    _started: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    _returned: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        if call.name == "stepfunctions.StartExecution" and "name" in call.params:
            return self._start(call, make)
        if call.name in ("stepfunctions.SendTaskSuccess", "stepfunctions.SendTaskFailure"):
            return self._return(call, make)
        return make(call)

    def _start(self, call: Call, make: Make) -> dict[str, Any]:
        place = (call.params["stateMachineArn"], call.params["name"])
        given = call.params.get("input", "{}")
        with self._lock:
            earlier = self._started.get(place)
            if earlier is None:
                answer = make(call)
                self._started[place] = (given, answer)
                return answer
        arn = earlier[1]["executionArn"]
        running = call.beside("DescribeExecution", executionArn=arn)["status"] == "RUNNING"
        if running and given == earlier[0]:
            return earlier[1]
        raise call.refused("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")

    def _return(self, call: Call, make: Make) -> dict[str, Any]:
        token = call.params["taskToken"]
        with self._lock:
            if token in self._returned:
                raise call.refused("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
            answer = make(call)
            self._returned.add(token)
            return answer
