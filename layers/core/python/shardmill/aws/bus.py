"""EventBridge: events about Jobs, steps and schedules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.model.errors import Transient

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient


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
        answer = self._client.put_events(
            Entries=[
                {
                    "EventBusName": self._name,
                    "Source": "shardmill",
                    "DetailType": kind,
                    "Detail": json.dumps(detail),
                }
            ]
        )
        if answer.get("FailedEntryCount"):
            raise EventRefused(str(answer["Entries"]))
