"""Lambda: invoke a function of the deployment asynchronously."""

from __future__ import annotations

from typing import Any


class Functions:
    def __init__(self, client: Any, stack: str) -> None:
        self._client = client
        self._stack = stack

    def invoke_later(self, function: str, payload: bytes) -> None:
        """Have Lambda queue an event for a function; it retries an event that fails."""
        name = f"{self._stack}-{function}"
        self._client.invoke(FunctionName=name, InvocationType="Event", Payload=payload)
