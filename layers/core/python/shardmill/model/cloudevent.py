"""Notifications as CloudEvents 1.0, with signatures according to Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shardmill.model.secrets.secret import secret_bytes
from shardmill.model.timestamps import to_ms

CONTENT_TYPE = "application/cloudevents+json"
_FOR_RULES = ("notify", "dependents")
"""Fields by which the rules of the template choose events."""


def cloudevent(stack: str, kind: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an event to a CloudEvent; the same event always has the same id."""
    happened = kind.removeprefix("Job ").lower()
    return {
        "specversion": "1.0",
        "id": f"{detail['jobId']}.{detail['run']}.{happened}.{to_ms(datetime.fromisoformat(detail['time']))}",
        "source": f"/shardmill/{stack}",
        "type": f"io.shardmill.job.{happened}",
        "subject": f"{detail['jobName']}/{detail['trigger']}",
        "time": detail["time"],
        "datacontenttype": "application/json",
        "data": {name: value for name, value in detail.items() if name not in _FOR_RULES},
    }


def encoded(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message; `timestamp` is in seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret_bytes(secret), signed, hashlib.sha256)).decode()


def signed_headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": "shardmill",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message_id, timestamp, body),
    }
