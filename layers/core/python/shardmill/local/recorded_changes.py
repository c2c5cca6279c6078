"""Record the changes of MiniStack's services in the journal, and apply the journal when they start.

DynamoDB items, Step Functions executions, and SQS queues with their messages are recorded. S3 objects have
files of their own. Everything else changes only when the template is deployed, and a snapshot follows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from shardmill.local.journal import Journal, Record

_QUEUE_ACTIONS = ("CreateQueue", "DeleteQueue", "SetQueueAttributes", "TagQueue", "UntagQueue", "PurgeQueue")
_DELETES = ("DeleteMessage", "DeleteMessageBatch")


class RecordedChanges:
    def __init__(self, journal: Journal, dynamodb: Any, stepfunctions: Any, sqs: Any) -> None:
        self._journal = journal
        self._dynamodb = dynamodb
        self._stepfunctions = stepfunctions
        self._sqs = sqs
        self._set_item = dynamodb._set_item
        self._remove_item = dynamodb._remove_item
        self._lock = threading.Lock()

    def record(self) -> None:
        """Patch the services so that they record each change as they make it."""
        self._dynamodb._set_item = self._recorded_item(self._set_item)
        self._dynamodb._remove_item = self._recorded_item(self._remove_item)
        self._stepfunctions._emit_execution_status_event = self._recorded_status(
            self._stepfunctions._emit_execution_status_event
        )
        handlers = self._sqs._HANDLERS
        self._sqs._act_send_message = handlers["SendMessage"] = self._recorded_send(handlers["SendMessage"])
        for action in _QUEUE_ACTIONS:
            handlers[action] = self._recorded_queue(handlers[action])
        for action in _DELETES:
            handlers[action] = self._recorded_delete(handlers[action])
        self._sqs._delete_messages_for_esm = self._recorded_delete(self._sqs._delete_messages_for_esm)

    def _recorded_item(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(table: Any, partition: str, sort: str, item: Any = None) -> Any:
            """Rows expire in a thread: the lock keeps the records in the order of the changes."""
            with self._lock:
                old = change(table, partition, sort, *(() if item is None else (item,)))
                self._journal.append(["item", table["TableArn"], partition, sort, item])
            return old

        return changed

    def _recorded_status(self, emit: Callable[[Any], None]) -> Callable[[Any], None]:
        """MiniStack emits an event at every start and end of an execution, in one function."""

        def emitted(execution: Any) -> None:
            kept = {key: value for key, value in execution.items() if key != "events"}
            self._journal.append(["execution", kept])
            emit(execution)

        return emitted

    def _recorded_queue(self, act: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def acted(data: Any, url: str) -> Any:
            before = set(self._sqs._queues)
            result = act(data, url)
            named = result.get("QueueUrl") or data.get("QueueUrl", url)
            for gone in before - set(self._sqs._queues):
                self._journal.append(["queue", *self._scope(), gone, None])
            if (queue := self._sqs._queues.get(named)) is not None:
                kept = {key: value for key, value in queue.items() if key != "messages"}
                self._journal.append(["queue", *self._scope(), named, kept])
            return result

        return acted

    def _recorded_send(self, act: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        @wraps(act)
        def acted(data: Any, url: str) -> Any:
            result = act(data, url)
            queue = self._sqs._get_q(data.get("QueueUrl", url))
            if queue["messages"] and queue["messages"][-1]["id"] == result["MessageId"]:
                self._journal.append(["sent", queue["attributes"]["QueueArn"], queue["messages"][-1]])
            return result

        return acted

    def _recorded_delete(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(data: Any, other: Any) -> Any:
            queue = self._sqs._get_q(data if isinstance(data, str) else data.get("QueueUrl", other))
            before = queue["messages"]
            result = act(data, other)
            if gone := _missing(before, queue["messages"]):
                self._journal.append(["deleted", queue["attributes"]["QueueArn"], gone])
            return result

        return acted

    def _scope(self) -> tuple[str, str]:
        return self._sqs.get_account_id(), self._sqs.get_region()

    def apply(self, records: Iterable[Record]) -> None:
        """Apply the journal to the restored services."""
        queues = _Messages(self._sqs)
        for kind, *what in records:
            match kind:
                case "item":
                    self._apply_item(*what)
                case "execution":
                    self._apply_execution(*what)
                case "queue":
                    queues.change(*what)
                case "sent":
                    queues.send(*what)
                case "deleted":
                    queues.delete(*what)
                case _:
                    raise ValueError(f"unknown record {kind!r}")
        queues.finish()

    def _apply_item(self, arn: str, partition: str, sort: str, item: Any) -> None:
        account, region, name = _named(arn)
        table = self._dynamodb._tables.get_scoped(account, region, name.removeprefix("table/"))
        if table is None:
            return
        if item is None:
            self._remove_item(table, partition, sort)
        else:
            self._set_item(table, partition, sort, item)

    def _apply_execution(self, changed: dict[str, Any]) -> None:
        account, region, _ = _named(changed["executionArn"])
        executions = self._stepfunctions._executions
        known = executions.get_scoped(account, region, changed["executionArn"], {})
        events = known.get("events") or [_started(changed)]
        executions.set_scoped(account, region, changed["executionArn"], {**changed, "events": events})


class _Messages:
    """The messages of the queues by id, while the journal is applied."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self._by_queue: dict[str, dict[str, Any]] = {}
        for queue in sqs._queues.all_values():
            self._by_queue[queue["attributes"]["QueueArn"]] = {m["id"]: m for m in queue["messages"]}

    def change(self, account: str, region: str, url: str, queue: Any) -> None:
        if queue is None:
            self._sqs._queues.pop_scoped(account, region, url, None)
        else:
            self._sqs._queues.set_scoped(account, region, url, {**queue, "messages": []})

    def send(self, arn: str, message: Any) -> None:
        self._by_queue.setdefault(arn, {}).setdefault(message["id"], message)

    def delete(self, arn: str, ids: list[str]) -> None:
        for one in ids:
            self._by_queue.get(arn, {}).pop(one, None)

    def finish(self) -> None:
        for queue in self._sqs._queues.all_values():
            queue["messages"] = list(self._by_queue.get(queue["attributes"]["QueueArn"], {}).values())
        self._sqs._rebuild_queue_name_index()


def _missing(before: list[Any], after: list[Any]) -> list[str]:
    """The ids of the messages of `before` that are not in `after`, which is in the same order."""
    if len(before) == len(after):
        return []
    kept = {id(message) for message in after}
    return [message["id"] for message in before if id(message) not in kept]


def _named(arn: str) -> tuple[str, str, str]:
    """The account, the region and the resource of an ARN."""
    _, _, _, region, account, resource = arn.split(":", 5)
    return account, region, resource


def _started(execution: dict[str, Any]) -> dict[str, Any]:
    details = {"input": execution["input"], "roleArn": ""}
    event = {"id": 1, "type": "ExecutionStarted", "timestamp": execution["startDate"]}
    return event | {"executionStartedEventDetails": details}
