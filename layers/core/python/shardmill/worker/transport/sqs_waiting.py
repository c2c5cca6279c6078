"""Waiting for tasks at SQS, with presigned requests instead of credentials.

The addresses come with the registration and with heartbeats, and are secrets: they are never logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from xml.etree import ElementTree

import httpx
from pydantic import ValidationError

from shardmill.model.groups.addresses import LaneAddresses, ReceivedMessage
from shardmill.worker.transport.lanes import Lane, Lanes

log = logging.getLogger("shardmill.worker")

RETRY_SECONDS = 300.0
"""How long a worker that cannot reach SQS waits over HTTP before it tries again."""

MAX_HEARTBEAT_SECONDS = 60
"""Heartbeats come at least this often, because they renew the addresses and announce new lanes."""

_SPARE_SECONDS = 10.0
_MAX_BYTES = 10 * 300_000  # ten messages of SQS's maximum size; Shardmill's are a hundred times smaller


class SqsUnreachable(Exception):
    """SQS did not answer, or refused the request."""


class SqsWaiting:
    """The lanes of a worker, by their presigned addresses.

    `release`: makes messages visible again, through the API. Lease calls come from one thread, addresses from
    others.
    """

    def __init__(self, client: httpx.Client, release: Callable[[Sequence[ReceivedMessage]], None]) -> None:
        self._client = client
        self._release = release
        self._lock = Lock()
        self._addresses: LaneAddresses | None = None
        self._expires = 0.0
        self._retry_at = 0.0
        self._fallen_back = False
        self._serving = False
        self.lanes: Lanes[ReceivedMessage] = Lanes(self)

    def use(self, addresses: LaneAddresses | None) -> None:
        """Use these addresses from now on; None keeps the present ones."""
        if addresses is None:
            return
        now = time.monotonic()
        with self._lock:
            if now >= self._expires:
                self._retry_at = 0.0  # expired addresses may have been the reason
            self._addresses = addresses
            self._expires = now + addresses.valid_seconds - _SPARE_SECONDS
            if self._serving:
                self._serve()

    def _serve(self) -> None:
        items = self._addresses.items if self._addresses else []
        self.lanes.serve(Lane(lane.queue, -lane.priority, 0) for lane in items)

    @property
    def tag(self) -> str:
        with self._lock:
            return self._addresses.tag if self._addresses else ""

    @property
    def usable(self) -> bool:
        """Whether there are addresses that have not expired, and SQS was not found to be unreachable."""
        now = time.monotonic()
        with self._lock:
            usable = self._addresses is not None and bool(self._addresses.items)
            return usable and now < self._expires and now >= self._retry_at

    def wait(self, most: int, seconds: int, patience: float | None = None) -> list[ReceivedMessage]:
        """Messages of the highest lane that has any. Raises SqsUnreachable.

        `patience`: how long it waits, if that is not a whole number of seconds.
        """
        with self._lock:
            self._serving = True
            self._serve()
        messages = self.lanes.receive(most, seconds, patience)
        failing = self.lanes.failing()
        if failing and not messages:
            raise failing
        if messages and self._fallen_back:
            self._fallen_back = False
            log.info("waiting at SQS again", extra={"action": "sqs-reachable"})
        return messages

    def fall_back(self, error: Exception) -> None:
        """Wait over HTTP for some minutes. Logs it once, until waiting at SQS has succeeded again."""
        with self._lock:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._serving = False
        self.lanes.serve(())
        if not self._fallen_back:
            self._fallen_back = True
            log.warning(
                "SQS cannot be reached; waiting for tasks through the API, which costs more",
                extra={"action": "sqs-unreachable", "error": str(error)},
            )

    # called by `Lanes`

    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[ReceivedMessage]:  # noqa: ARG002
        """Receive messages of a queue; how long it waits and hides is part of the address."""
        with self._lock:
            known = time.monotonic() < self._expires and self._addresses
            address = known.url(url, most) if known else None
        if address is None:
            raise SqsUnreachable(
                f"queue {url}: its address has expired, and no heartbeat has returned a new one"
            )
        try:
            response = self._client.get(address)
        except httpx.HTTPError as error:
            raise SqsUnreachable(f"queue {url}: {type(error).__name__}") from None
        if not response.is_success:
            raise SqsUnreachable(f"queue {url}: {response.status_code} {_error_code(response)}")
        return _parse(url, response.content)

    def hide(self, messages: Iterable[tuple[ReceivedMessage, int]]) -> None:
        self._release([message for message, _ in messages])


def _parse(queue: str, content: bytes) -> list[ReceivedMessage]:
    """The messages of an answer of SQS's query protocol."""
    if len(content) > _MAX_BYTES or b"<!DOCTYPE" in content:
        raise SqsUnreachable(f"queue {queue}: the answer is not one of SQS")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 - without a DOCTYPE there are no entities
        return [_message(queue, element) for element in root.iter() if _name(element) == "Message"]
    except (ElementTree.ParseError, ValidationError, ValueError):
        raise SqsUnreachable(f"queue {queue}: the answer is not one of SQS") from None


def _message(queue: str, element: ElementTree.Element) -> ReceivedMessage:
    values = {_name(child): child.text or "" for child in element}
    attributes: dict[str, str] = {}
    for child in element:
        if _name(child) == "Attribute":
            pair = {_name(part): part.text or "" for part in child}
            attributes[pair.get("Name", "")] = pair.get("Value", "")
    return ReceivedMessage(
        queue=queue,
        receipt=values.get("ReceiptHandle", ""),
        body=values.get("Body", ""),
        receives=int(attributes.get("ApproximateReceiveCount", 1)),
    )


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _error_code(response: httpx.Response) -> str:
    """The code of an error, such as AccessDenied; its message may contain the signed request."""
    _, _, after = response.text[:10_000].partition("<Code>")
    code = after.partition("<")[0]
    return code if code.replace(".", "").isalnum() and len(code) < 100 else ""
