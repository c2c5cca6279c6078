"""SQS queues on moto as on AWS: what a message's age and the number of messages in flight forbid."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid, SQSException
from moto.sqs.models import Queue, SQSBackend

Method = Callable[..., Any]

MAX_IN_FLIGHT = 120_000
"""Of a queue; tests set it lower."""


class OverLimit(SQSException):
    def __init__(self) -> None:
        super().__init__("OverLimit", f"The maximum of {MAX_IN_FLIGHT} messages in flight is reached.")


@contextmanager
def queues_with_limits() -> Iterator[None]:
    """Delete expired messages, refuse a receive when too many messages are in flight, and let any message be
    hidden again.

    moto keeps an expired message in front of the others and returns neither, counts hidden time from the
    sending of a message (AWS from its receipt: `aws_rules.queues.Receipts`), and has no limit in flight."""
    get_queue: Method = SQSBackend.get_queue
    receive: Method = SQSBackend.receive_message

    def queue_without_expired(self: SQSBackend, queue_name: str) -> Queue:
        queue: Queue = get_queue(self, queue_name)
        _delete_expired(queue)
        return queue

    def receive_message(
        self: SQSBackend, queue_name: str, count: int, wait_seconds_timeout: int, *rest: Any, **more: Any
    ) -> Any:
        queue = self.get_queue(queue_name)
        if len(queue._messages) >= MAX_IN_FLIGHT:
            free = MAX_IN_FLIGHT - queue.approximate_number_of_messages_not_visible
            if not free:
                if wait_seconds_timeout:
                    return []  # a long poll only stays empty
                raise OverLimit
            count = min(count, free)
        return receive(self, queue_name, count, wait_seconds_timeout, *rest, **more)

    def change_message_visibility(
        self: SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        queue = self.get_queue(queue_name)
        for message in queue._messages:
            if message.had_receipt_handle(receipt_handle):
                message.change_visibility(visibility_timeout)
                if message.visible:
                    queue.pending_messages.discard(message)
                return
        raise ReceiptHandleIsInvalid

    with (
        patch.object(SQSBackend, "get_queue", queue_without_expired),
        patch.object(SQSBackend, "receive_message", receive_message),
        patch.object(SQSBackend, "change_message_visibility", change_message_visibility),
    ):
        yield


def _delete_expired(queue: Queue) -> None:
    """A message expires at its age, whether it is visible, hidden or delayed."""
    oldest = models.unix_time_millis() - int(queue.message_retention_period) * 1000  # type: ignore[attr-defined]
    expired = [message for message in queue._messages if message.sent_timestamp < oldest]  # type: ignore[operator]
    for message in expired:
        queue._messages.remove(message)
        queue.pending_messages.discard(message)
        queue.deleted_messages.update(message.all_receipt_handles)  # type: ignore[arg-type]
