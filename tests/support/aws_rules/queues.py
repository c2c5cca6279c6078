"""SQS delivery by AWS's rules: receipts expire, messages arrive twice, late or out of order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any

from support.aws_rules.call import Call
from support.aws_rules.limits import QUEUE_NAME_BLOCKED_SECONDS

MAX_HIDDEN_SECONDS = 12 * 3600

Make = Callable[[Call], dict[str, Any]]
_STALE = "Value for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
_TOO_LONG = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"


@dataclass(frozen=True)
class Delivery:
    message: tuple[str, str]
    at: float


@dataclass
class Receipts:
    """Only the newest receipt of a message is valid, and no message is hidden for more than 12 h.

    As on AWS, deleting with an old receipt is answered with success and does not delete."""

    clock: Callable[[], float] = time.monotonic
    ignored_deletes: int = 0
    _deliveries: dict[str, Delivery] = field(default_factory=dict)
    _newest: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        match call.operation if call.service == "sqs" else None:
            case "ReceiveMessage":
                return self._received(call, make(call))
            case "DeleteMessage":
                return self._delete(call, make)
            case "ChangeMessageVisibility":
                fault = self._fault(call.params)
                if fault:
                    raise call.refused("InvalidParameterValue", fault)
            case "DeleteMessageBatch" | "ChangeMessageVisibilityBatch":
                return self._batch(call, make)
        return make(call)

    def _received(self, call: Call, answer: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for message in answer.get("Messages", []):
                place = (call.params["QueueUrl"], message["MessageId"])
                self._deliveries[message["ReceiptHandle"]] = Delivery(place, self.clock())
                self._newest[place] = message["ReceiptHandle"]
        return answer

    def _is_stale(self, receipt: str) -> bool:
        delivery = self._deliveries.get(receipt)
        return delivery is not None and self._newest[delivery.message] != receipt

    def _delete(self, call: Call, make: Make) -> dict[str, Any]:
        if self._is_stale(call.params["ReceiptHandle"]):
            self.ignored_deletes += 1
            return {"ResponseMetadata": {"HTTPStatusCode": 200}}
        return make(call)

    def _fault(self, params: dict[str, Any]) -> str | None:
        """Why the visibility of a message cannot be changed so."""
        receipt = params["ReceiptHandle"]
        if self._is_stale(receipt):
            return _STALE
        delivery = self._deliveries.get(receipt)
        hidden = self.clock() - delivery.at if delivery else 0.0
        return _TOO_LONG if hidden + params["VisibilityTimeout"] > MAX_HIDDEN_SECONDS else None

    def _batch(self, call: Call, make: Make) -> dict[str, Any]:
        deleting = call.operation == "DeleteMessageBatch"
        answered: dict[str, Any] = {"Successful": [], "Failed": []}
        passed = []
        for entry in call.params["Entries"]:
            fault = _STALE if deleting and self._is_stale(entry["ReceiptHandle"]) else None
            if not deleting:
                fault = self._fault(entry)
            if fault is None:
                passed.append(entry)
            elif deleting:
                self.ignored_deletes += 1
                answered["Successful"].append({"Id": entry["Id"]})
            else:
                answered["Failed"].append(_failed(entry["Id"], "InvalidParameterValue", fault))
        if not passed:
            return answered | {"ResponseMetadata": {"HTTPStatusCode": 200}}
        answer = make(call.having(Entries=passed))
        return answer | {key: [*answered[key], *answer.get(key, [])] for key in answered}


@dataclass
class QueueNames:
    """A deleted queue's name cannot be used again for a minute."""

    clock: Callable[[], float] = time.monotonic
    _deleted: dict[str, float] = field(default_factory=dict)

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        if call.name == "sqs.DeleteQueue":
            answer = make(call)
            self._deleted[call.params["QueueUrl"].rsplit("/", 1)[-1]] = self.clock()
            return answer
        if call.name == "sqs.CreateQueue":
            deleted = self._deleted.get(call.params["QueueName"])
            if deleted is not None and self.clock() - deleted < QUEUE_NAME_BLOCKED_SECONDS:
                raise call.refused(
                    "AWS.SimpleQueueService.QueueDeletedRecently",
                    "You must wait 60 seconds after deleting a queue before you use its name again.",
                )
        return make(call)


@dataclass
class UnreliableDelivery:
    """Receives that bring fewer messages than there are, in any order, and some of them twice."""

    random: Random
    duplicates: float
    shuffled: bool
    partial: bool

    def around(self, call: Call, make: Make) -> dict[str, Any]:
        if call.name != "sqs.ReceiveMessage":
            return make(call)
        if self.partial:
            most = self.random.randint(1, call.params.get("MaxNumberOfMessages", 1))
            call = call.having(MaxNumberOfMessages=most)
        answer = make(call)
        messages = answer.get("Messages", [])
        if self.shuffled:
            self.random.shuffle(messages)
        for message in messages:
            if self.random.random() < self.duplicates:
                call.beside(
                    "ChangeMessageVisibility",
                    QueueUrl=call.params["QueueUrl"],
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=0,
                )
        return answer


def _failed(entry_id: str, code: str, message: str) -> dict[str, Any]:
    return {"Id": entry_id, "SenderFault": True, "Code": code, "Message": message}
