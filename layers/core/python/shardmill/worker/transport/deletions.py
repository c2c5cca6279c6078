"""Queues whose messages are deleted in a thread: a report need not wait for it, and deletions share calls.

Nothing depends on a deletion. A message that is not deleted is received again, found to be done, and deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Condition, Thread
from typing import TYPE_CHECKING

from shardmill.aws.queues import Message, Queues

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

log = logging.getLogger("shardmill.worker")

MAX_PENDING = 1_000
"""Of more messages, `delete` waits until some are deleted."""

_IDLE_SECONDS = 1.0
"""After this time without messages, the thread ends; the next deletion starts another one."""


class DeferredDeletes(Queues):
    def __init__(self, client: SQSClient, dead_queue: str) -> None:
        super().__init__(client, dead_queue)
        self._changed = Condition()
        self._pending: list[Message] = []
        self._deleting = 0
        self._thread: Thread | None = None

    def delete(self, messages: Iterable[Message]) -> None:
        """Delete messages soon."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._pending) < MAX_PENDING)
            self._pending.extend(messages)
            if not self._thread:
                self._thread = Thread(target=self._delete_pending, name="delete", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _delete_pending(self) -> None:
        while True:
            with self._changed:
                self._deleting = 0
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._pending, _IDLE_SECONDS):
                    self._thread = None
                    return
                taken, self._pending = self._pending, []
                self._deleting = len(taken)
            try:
                super().delete(taken)
            except Exception:
                log.exception(
                    "failed to delete messages; they are received again and deleted then",
                    extra={"action": "delete-failed", "messages": len(taken)},
                )

    def finish(self, seconds: float) -> bool:
        """Whether all messages are deleted within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._deleting, seconds)
