"""Submit the Job of an event of EventBridge, or of a direct invocation.

Lambda repeats an event that failed and keeps it in a dead-letter queue, as it was. One with a data token does
not fail in plain text: it is queued again with the token encrypted, and only that event may fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from shardmill.aws import clients
from shardmill.aws.functions import Functions
from shardmill.aws.observability import logger
from shardmill.engine.jobs.submit import Submitted, submit
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import open_event, seal_event
from shardmill.model.access.grants import Grant
from shardmill.model.actor import Actor

EVENTBRIDGE = "eventbridge"


def submit_event(
    mill: Mill, event: Any, request_id: str, *, now: int, new_id: Callable[[], str]
) -> Submitted | None:
    """Return None if the event failed and was queued again."""
    event, trigger = with_trigger(event, request_id)
    try:
        request, _ = request_from_event(open_event(mill, trigger, event), request_id)
        return submit(mill, request, event_actor(mill), now=now, new_id=new_id, default_trigger=trigger)
    except Exception as error:
        sealed = seal_event(mill, trigger, event)
        if sealed == event:
            raise
        _queue_again(mill, sealed, trigger, error)
        return None


def _queue_again(mill: Mill, sealed: Any, trigger: str, error: Exception) -> None:
    Functions(clients.lambda_(), mill.settings.stack).invoke_later("submit", json.dumps(sealed).encode())
    extra = {"action": "submit-again", "trigger": trigger, "error": f"{type(error).__name__}: {error}"}
    logger.warning(
        "failed to submit a job; its event is queued again with its data token encrypted", extra=extra
    )


def event_actor(mill: Mill) -> Actor:
    """Who submits for events: only Jobs of the definitions that the deployment allows."""
    patterns = mill.settings.event_definitions
    return Actor(EVENTBRIDGE, (Grant("submit", definitions=None if "*" in patterns else patterns),))


def request_from_event(event: Any, request_id: str) -> tuple[object, str]:
    """Return the JobRequest of an event, and a default trigger.

    An EventBridge event has the request in `detail`, and its id, the same in every delivery, is the trigger.
    Any other event is the request itself.
    """
    if isinstance(event, dict) and "detail-type" in event and "detail" in event:
        return event["detail"], str(event.get("id") or request_id)
    return event, request_id


def with_trigger(event: Any, request_id: str) -> tuple[Any, str]:
    """Return an event that names its trigger, by which its repeats find the same Job, and the trigger."""
    if not isinstance(event, dict):
        return event, request_id
    request, default = request_from_event(event, request_id)
    if request is not event:
        return {**event, "id": default}, default
    event = {"trigger": default, **event}
    return event, str(event["trigger"])
