"""EventBridge: events about Jobs, steps and schedules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.model.errors import Transient

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient


_BATCH = 10


class EventRefused(Transient):
    """EventBridge rejected an event; the next tick publishes it again."""


class Bus:
    def __init__(self, client: EventBridgeClient, name: str) -> None:
        self._client = client
        self._name = name

    def publish_best_effort(self, kind: str, detail: dict[str, Any]) -> None:
        """Publish an event that no Job depends on; a failure is logged and not retried."""
        try:
            self.publish(kind, detail)
        except (EventRefused, ClientError, BotoCoreError) as error:
            extra = {"action": "publish-event", "kind": kind, "detail": detail, "error": str(error)}
            logger.warning("PutEvents failed; the event is lost", extra=extra)

    def publish(self, kind: str, detail: dict[str, Any]) -> None:
        self.publish_all(kind, [detail])

    def publish_all(self, kind: str, details: Sequence[dict[str, Any]]) -> None:
        """Publish events of a kind, ten in a call."""
        for at in range(0, len(details), _BATCH):
            answer = self._client.put_events(
                Entries=[
                    {
                        "EventBusName": self._name,
                        "Source": "shardmill",
                        "DetailType": kind,
                        "Detail": json.dumps(detail),
                    }
                    for detail in details[at : at + _BATCH]
                ]
            )
            if answer.get("FailedEntryCount"):
                raise EventRefused(str(answer["Entries"]))
