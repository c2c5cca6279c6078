"""SNS topics that definitions name as targets of notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_SUBJECT = 100


class Topics:
    def __init__(self, client: Any) -> None:
        self._client = client

    def publish(self, arn: str, subject: str, body: str, attributes: Mapping[str, str]) -> None:
        self._client.publish(
            TopicArn=arn,
            Subject=subject[:MAX_SUBJECT],
            Message=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )
