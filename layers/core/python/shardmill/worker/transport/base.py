"""How a worker communicates with Shardmill: one protocol, over HTTP or directly with AWS, and its errors.

TransportError
├── Unreachable   no response, or a temporary failure: retry
├── Refused       Shardmill rejected the request: a retry fails as well
└── Stale         the session of the worker has ended
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from shardmill.model.transfers import Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import (
    HandedBack,
    HeartbeatAnswer,
    HeldTask,
    Lease,
    Registration,
    Reported,
    Result,
    Worker,
)
from shardmill.transfer.backoff import Backoff, retry
from shardmill.worker.logs import LogStore

WORKER_SUSPENDED = "worker-suspended"
"""The code of a refused lease: the worker is suspended or drained; its next heartbeat gets the reason."""

BRIEF_BACKOFF = Backoff(attempts=4, first_delay=0.2, max_delay=0.8)
T = TypeVar("T")


class TransportError(Exception):
    """A request to Shardmill failed."""


class Unreachable(TransportError):
    """Shardmill did not respond, or failed temporarily; retry."""


class Refused(TransportError):
    """Shardmill rejected the request; a retry would be rejected as well."""

    def __init__(self, message: str, code: str = "refused", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail or message


class Stale(TransportError):
    """The session has ended: another worker registered with the same name, or the worker was removed."""


def retry_briefly(call: Callable[[], T]) -> T:
    """Retry a call for about a second while Shardmill is unreachable."""
    return retry(call, BRIEF_BACKOFF, on=Unreachable)


class FileUrls(Protocol):
    """Requests presigned URLs for the files of a task. Raises Unreachable and Refused.

    A repeated `store` for the same output and content continues the same upload. A repeated `complete` of a
    complete upload changes nothing.
    """

    def prepare(self, lease: Lease) -> Prepared: ...

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]: ...

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None: ...

    def load_checkpoint(self, lease: Lease) -> bytes | None:
        """Return the checkpoint of an earlier attempt."""

    def save_checkpoint(self, lease: Lease, data: bytes) -> None: ...


class Transport(Protocol):
    """`register` comes first; lease, report and heartbeat are each called from a single thread."""

    @property
    def logs(self) -> LogStore: ...

    @property
    def files(self) -> FileUrls: ...

    @property
    def largest_batch(self) -> int:
        """The maximum number of tasks that a call leases or reports, once the worker is registered."""

    def register(self, registration: Registration) -> Worker: ...

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer: ...

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        """Lease up to `most` tasks, waiting at most that long for the first."""

    def report(self, results: Sequence[Result]) -> list[Reported]: ...

    def hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        """Return tasks that did not run to their end, so that other workers can take them."""

    def close(self) -> None:
        """Stop leasing: a pending `lease` returns, and messages that still arrive are released."""


def handed_back(lease: Lease, reason: str) -> HandedBack:
    return HandedBack(task_id=lease.task_id, attempt=lease.attempt, receipt=lease.receipt, reason=reason)
