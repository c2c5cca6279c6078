"""One AWS call, intercepted above botocore."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import ClientError

running_function: ContextVar[str | None] = ContextVar("running_function", default=None)
"""The function whose handler runs in this thread, or `WORKER` of `grants.py`."""

Send = Callable[[BaseClient, str, dict[str, Any]], dict[str, Any]]


@contextmanager
def running_as(function: str | None) -> Iterator[None]:
    """Calls in this thread are made with the role of a function or a worker; None: by the test."""
    token = running_function.set(function)
    try:
        yield
    finally:
        running_function.reset(token)


@contextmanager
def threads_keep_roles() -> Iterator[None]:
    """Calls in threads that a function or a worker starts are also made with its role."""
    start = Thread.start

    def start_with_role(thread: Thread) -> None:
        role, run = running_function.get(), thread.run

        def run_with_role() -> None:
            with running_as(role):
                run()

        if role:
            thread.run = run_with_role  # type: ignore[method-assign]
        start(thread)

    with patch.object(Thread, "start", start_with_role):
        yield


class ProcessKilled(BaseException):
    """The process ended at this call; no handler of its own sees it."""


@dataclass(frozen=True)
class Call:
    client: BaseClient
    operation: str
    params: dict[str, Any]
    send: Send

    @property
    def service(self) -> str:
        return str(self.client.meta.service_model.service_name)

    @property
    def name(self) -> str:
        """As it is counted: `dynamodb.UpdateItem`."""
        return f"{self.service}.{self.operation}"

    def having(self, **params: Any) -> Call:
        return replace(self, params=self.params | params)

    def make(self) -> dict[str, Any]:
        return self.send(self.client, self.operation, self.params)

    def beside(self, operation: str, **params: Any) -> dict[str, Any]:
        """Another call with the same client, which is not part of what is tested."""
        with running_as(None):
            return self.send(self.client, operation, params)

    def refused(self, code: str, message: str, **more: Any) -> ClientError:
        """The error that the service would answer, of the class that the client has for it."""
        answer: Mapping[str, Any] = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": 400,
                "RequestId": "refused-by-the-test",
                "RetryAttempts": 0,
            },
            **more,
        }
        known = code.rsplit(".", 1)[-1]
        kind: type[ClientError] = self.client.exceptions.from_code(known)  # type: ignore[assignment]
        return kind(answer, self.operation)  # type: ignore[arg-type]
