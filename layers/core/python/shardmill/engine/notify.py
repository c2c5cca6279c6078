"""Telling the receivers that a definition names, through a queue that tries again.

An event of the bus becomes one message for each receiver, so that one who does not answer repeats nothing for
the others. A message that fails is hidden for longer each time, and goes to the dead-letter queue in the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shardmill.aws import clients
from shardmill.aws.observability import logger
from shardmill.aws.queues import Message
from shardmill.aws.secrets import Secrets, SecretUnavailable
from shardmill.aws.topics import Topics
from shardmill.engine.mill import Mill
from shardmill.model.cloudevent import cloudevent, encoded, signed_headers
from shardmill.model.notify import Notice, Webhook, occasion_of
from shardmill.model.states import JobState

MOST_TRIES = 12
FIRST_WAIT_SECONDS = 10
LONGEST_WAIT_SECONDS = 900


class NotDelivered(Exception):
    """A receiver did not take a notice."""


class Post(Protocol):
    """Sends a body to an address, or raises NotDelivered; `loopback`: it may be this machine."""

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, loopback: bool) -> None: ...


def deliver(mill: Mill, records: Sequence[Mapping[str, Any]], post: Post, now: int) -> list[str]:
    """Handle the messages of an SQS event; the ids of those that are to come again."""
    kept: list[str] = []
    for record in records:
        message = _message(mill, record)
        try:
            _handle(mill, json.loads(message.body), post, now)
        except Exception as error:
            # Whatever is wrong with one receiver, the others are told; this one is tried again.
            _try_again(mill, message, error)
            kept.append(message.id)
    return kept


def wait_seconds(receives: int) -> int:
    """How long a message rests that was tried so often; after the last try it need not."""
    if receives >= MOST_TRIES:
        return 0
    return min(FIRST_WAIT_SECONDS << (receives - 1), LONGEST_WAIT_SECONDS)


def _message(mill: Mill, record: Mapping[str, Any]) -> Message:
    receives = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
    queue = mill.settings.notify_queue
    return Message(queue, record["receiptHandle"], record["body"], record["messageId"], receives)


def _try_again(mill: Mill, message: Message, error: Exception) -> None:
    extra = {
        "action": "deliver-notification",
        "messageId": message.id,
        "tries": message.receives,
        "error": str(error),
    }
    if message.receives >= MOST_TRIES:
        logger.error("gave up on a notice; it is in the dead-letter queue", extra=extra)
    else:
        known = isinstance(error, NotDelivered | SecretUnavailable)
        logger.warning("a notice was not delivered", extra=extra, exc_info=None if known else error)
    mill.queues.hide([(message, wait_seconds(message.receives))])


def _handle(mill: Mill, body: Mapping[str, Any], post: Post, now: int) -> None:
    if "notice" in body:
        _tell(mill, body, post, now)
    else:
        _expand(mill, body["detail-type"], body["detail"])


def _expand(mill: Mill, kind: str, detail: Mapping[str, Any]) -> None:
    """Make one message for each receiver that wants to hear of an event."""
    occasion = occasion_of(kind, JobState(detail["state"]))
    bodies = [
        json.dumps({"notice": number, "occasion": occasion, "kind": kind, "detail": detail})
        for number, notice in enumerate(_notices(mill, detail))
        if occasion in notice.on
    ]
    mill.queues.send_texts(mill.settings.notify_queue, bodies)


def _notices(mill: Mill, detail: Mapping[str, Any]) -> list[Notice]:
    saved = mill.definitions.version(detail["jobName"], detail["definitionVersion"])
    return [Notice.model_validate(each) for each in saved.document.get("notify", ())] if saved else []


def _tell(mill: Mill, body: Mapping[str, Any], post: Post, now: int) -> None:
    detail = body["detail"]
    notice = _notices(mill, detail)[body["notice"]]
    event = cloudevent(mill.settings.stack, body["kind"], detail)
    if notice.webhook:
        _to_webhook(mill, notice.webhook, event, post, now)
    elif notice.sns:
        subject = f"{body['kind']}: {detail['jobName']}/{detail['trigger']} is {detail['state']}"
        attributes = {"jobName": detail["jobName"], "state": detail["state"], "kind": body["occasion"]}
        Topics(clients.sns()).publish(notice.sns, subject, encoded(event).decode(), attributes)
    extra = {"action": "deliver-notification", "id": event["id"], "notice": body["notice"]}
    logger.info("delivered a notice", extra=extra)


def _to_webhook(mill: Mill, webhook: Webhook, event: Mapping[str, Any], post: Post, now: int) -> None:
    body = encoded(event)
    headers = signed_headers(Secrets().resolve(webhook.secret), event["id"], now // 1000, body)
    post(webhook.url, headers, body, loopback=mill.settings.notify_loopback)
