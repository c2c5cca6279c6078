"""X-Ray subsegments for Powertools' Tracer, without the X-Ray SDK.

Importing `aws_xray_sdk` takes about as long as importing boto3 and Powertools together, on every cold start.
Tracer only uses it to send small documents to the daemon that Lambda runs beside a function:
https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html#xray-api-daemon
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from aws_lambda_powertools.tracing.base import BaseProvider, BaseSegment

_HEADER = b'{"format": "json", "version": 1}\n'
_current: ContextVar[Subsegment | None] = ContextVar("_current", default=None)


class Subsegment(BaseSegment):
    def __init__(self, name: str, trace: dict[str, str] | None, parent: Subsegment | None) -> None:
        self.trace = trace
        self.document: dict[str, Any] = {"name": name[:200], "type": "subsegment", "start_time": time.time()}
        if trace is not None:
            parent_id = parent.document["id"] if parent else trace["Parent"]
            self.document |= {"id": os.urandom(8).hex(), "trace_id": trace["Root"], "parent_id": parent_id}

    def put_annotation(self, key: str, value: Any) -> None:
        self.document.setdefault("annotations", {})[key] = value

    def put_metadata(self, key: str, value: Any, namespace: str = "default") -> None:
        self.document.setdefault("metadata", {}).setdefault(namespace, {})[key] = value

    def add_exception(self, exception: BaseException, stack: list[Any], remote: bool = False) -> None:  # noqa: ARG002 - the signature of the base class
        found = {
            "id": os.urandom(8).hex(),
            "type": type(exception).__name__,
            "message": str(exception)[:1000],
        }
        self.document |= {"fault": True, "cause": {"exceptions": [found | {"remote": remote}]}}

    def close(self, end_time: float | None = None) -> None:
        """Send the subsegment to the daemon, if X-Ray samples this invocation."""
        self.document["end_time"] = end_time or time.time()
        address = os.environ.get("AWS_XRAY_DAEMON_ADDRESS")
        if self.trace is None or not address:
            return
        host, _, port = address.rpartition(":")
        data = _HEADER + json.dumps(self.document, default=str).encode()
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.setblocking(False)
                udp.sendto(data, (host, int(port)))
        except OSError:  # a lost trace must not fail the invocation
            return

    def add_subsegment(self, subsegment: Any) -> None:
        raise NotImplementedError("subsegments are sent one by one; use in_subsegment")

    def remove_subsegment(self, subsegment: Any) -> None:
        raise NotImplementedError("subsegments are sent one by one; use in_subsegment")


class DaemonProvider(BaseProvider):
    """Sends subsegments as they end; does nothing outside Lambda and in invocations that are not sampled."""

    @contextmanager
    def in_subsegment(self, name: str = "", **_: Any) -> Iterator[Subsegment]:
        subsegment = Subsegment(name, sampled_trace(), _current.get())
        token = _current.set(subsegment)
        try:
            yield subsegment
        except BaseException as error:
            subsegment.add_exception(error, [])
            raise
        finally:
            _current.reset(token)
            subsegment.close()

    def put_annotation(self, key: str, value: Any) -> None:
        if subsegment := _current.get():
            subsegment.put_annotation(key, value)

    def put_metadata(self, key: str, value: Any, namespace: str = "default") -> None:
        if subsegment := _current.get():
            subsegment.put_metadata(key, value, namespace)

    def in_subsegment_async(self, name: str = "", **_: Any) -> Any:
        raise NotImplementedError("no handler is asynchronous")

    def patch(self, modules: Sequence[str]) -> None:
        """Patches no library: calls to AWS are not traced one by one."""

    def patch_all(self) -> None:
        """Patches no library: calls to AWS are not traced one by one."""


def sampled_trace() -> dict[str, str] | None:
    """The trace of this invocation, from the header that Lambda sets; None if X-Ray does not sample it."""
    header = os.environ.get("_X_AMZN_TRACE_ID", "")
    if "Sampled=1" not in header:
        return None
    trace = dict(part.split("=", 1) for part in header.split(";") if "=" in part)
    return trace if "Root" in trace and "Parent" in trace else None
