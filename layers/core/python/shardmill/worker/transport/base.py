"""How a worker talks to Shardmill: one protocol, over HTTP or straight to AWS, and what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
from shardmill.worker.logs import LogStore

RESTING = "worker-suspended"
"""The code of a refused lease: the worker is suspended or drained, which its next heartbeat tells."""


class TransportError(Exception):
    """Shardmill could not be told, or did not like what it was told."""


class Unreachable(TransportError):
    """Nobody answers, or nobody can just now: try again."""


class Refused(TransportError):
    """Shardmill said no; asking again changes nothing."""

    def __init__(self, said: str, code: str = "refused", detail: str = "") -> None:
        super().__init__(said)
        self.code = code
        self.detail = detail or said


class Stale(TransportError):
    """This worker's session is over: another of its name was registered, or it was forgotten."""


class FileDesk(Protocol):
    """Where a worker asks for the addresses of files. Raises Unreachable and Refused.

    `store` asked again for the same output and content goes on with the same upload. `complete` asked again
    for an upload that is complete changes nothing.
    """

    def prepare(self, lease: Lease) -> Prepared: ...

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]: ...

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None: ...


class Transport(Protocol):
    """`register` comes first; lease, report and heartbeat are each called by one thread of their own."""

    @property
    def logs(self) -> LogStore: ...

    @property
    def files(self) -> FileDesk: ...

    def register(self, registration: Registration) -> Worker: ...

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer: ...

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        """Up to `most` tasks; waits that long for the first."""

    def report(self, results: Sequence[Result]) -> list[Reported]: ...

    def hand_back(self, leases: Sequence[Lease]) -> None:
        """Give up tasks that were not run to their end, so that others can take them."""

    def close(self) -> None:
        """No more leases: a waiting `lease` returns, and what still arrives for it is given back."""


def handed_back(lease: Lease) -> HandedBack:
    return HandedBack(task_id=lease.task_id, attempt=lease.attempt, receipt=lease.receipt)
