"""Dead letters as the API shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shardmill.model.base import Answer, Time

Source = Literal["submit", "notification", "task"]
REDRIVABLE: frozenset[Source] = frozenset({"submit", "notification"})
"""An unreadable task message cannot be redriven, because its step is unknown."""


class DeadLetter(Answer):
    """A message or event that failed in every attempt."""

    id: str
    source: Source = Field(
        description="`submit`: an event that should have submitted a Job; `notification`: one that "
        "its receiver did not accept; `task`: a message in a task queue that cannot be read"
    )
    time: Time = Field(description="for an event, when its last attempt failed; else when it was first sent")
    reason: str
    size: int = Field(description="bytes of the payload")


class DeadLetterContent(DeadLetter):
    """A dead letter with the payload that a redrive sends again."""

    payload: Any = Field(description="JSON, or text if it is not JSON")
