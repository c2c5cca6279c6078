"""The answer of a batch of JobRequests."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shardmill.model.base import Answer
from shardmill.model.states import JobState

MAX_REQUESTS = 100


class BatchedJob(Answer):
    """The Job of a request in a batch, without its details."""

    id: str
    jid: int
    job_name: str
    trigger: str
    state: JobState


class BatchItem(Answer):
    """The answer to one request: its status as of a single submit, and the Job or the problem."""

    status: int = Field(
        description="202 for a new Job, 200 for an existing one, else the status of the problem"
    )
    job: BatchedJob | None = None
    problem: dict[str, Any] | None = Field(default=None, description="the problem+json of this request")

    @property
    def new(self) -> bool:
        return self.status == 202

    @property
    def temporary(self) -> bool:
        """Whether the failure is temporary, so that the request may succeed if it is sent again."""
        return self.status in (429, 500, 502, 503, 504)


class BatchAnswer(Answer):
    """The answers to the requests of a batch, in their order."""

    items: list[BatchItem]
