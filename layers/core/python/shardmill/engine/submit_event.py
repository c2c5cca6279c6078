"""A JobRequest as events bring it."""

from __future__ import annotations

from typing import Any

EVENTBRIDGE = "eventbridge"


def request_of(event: Any, request_id: str) -> tuple[object, str, str]:
    """The request, a trigger for it that is the same when the event is delivered again, and who asks.

    An EventBridge event has its request in `detail`; anything else is the request itself.
    """
    if isinstance(event, dict) and "detail-type" in event and "detail" in event:
        return event["detail"], str(event.get("id") or request_id), EVENTBRIDGE
    return event, request_id, EVENTBRIDGE
