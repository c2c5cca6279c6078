"""Waiting at SQS: presigned addresses of a worker's lanes, and the messages that it received from them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shardmill.model.base import Answer, Request

VALID_SECONDS = 900
"""How long an address can be used, at most."""

WAIT_SECONDS = 20
"""How long SQS holds a request while the queue is empty: the longest that it allows."""

SIZES = (1, 3, 10)
"""The numbers of messages that can be requested. A parameter of a presigned address cannot be changed."""

MAX_RECEIVED = 100

Tag = Annotated[str, Field(max_length=64)]


class LaneAddress(Answer):
    """A queue; GET one of `urls` to receive messages. The key is the largest number of messages."""

    queue: str = Field(description="its name")
    priority: int = Field(description="queues of higher priorities are served first")
    urls: dict[int, str] = Field(repr=False)


class LaneAddresses(Answer):
    """Where a worker waits for tasks; send `tag` with the next heartbeat to get them again only if needed."""

    tag: Tag
    valid_seconds: int
    items: list[LaneAddress]

    def url(self, queue: str, most: int) -> str | None:
        """The address for at most `most` messages of a queue; None if the queue is no longer served."""
        for lane in self.items:
            if lane.queue == queue:
                return lane.urls[max(size for size in lane.urls if size <= most or size == 1)]
        return None


class ReceivedMessage(Request):
    """A message as SQS returned it. Only the tasks' rows decide whether it leads to a lease."""

    queue: str = Field(max_length=80)
    receipt: str = Field(max_length=2_048, repr=False)
    body: str = Field(max_length=1_000)
    receives: int = Field(default=1, ge=1, le=1_000_000)
