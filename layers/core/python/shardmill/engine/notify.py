"""Deliver notifications to the webhooks and SNS topics of a definition, through a queue with retries.

An event becomes one message per receiver, so a receiver that fails causes no repeats for the others. A failed
message is retried with growing delays and moves to the dead-letter queue after the last attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shardmill.aws import clients
from shardmill.aws.observability import logger
from shardmill.aws.queues import Message
from shardmill.aws.secrets import SecretUnavailable
from shardmill.aws.topics import Topics
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import open_private, resolve
from shardmill.model.cloudevent import cloudevent, encoded, signed_headers
from shardmill.model.notify import Notice, Webhook
from shardmill.model.secrets.secret import is_reference
from shardmill.model.states import JobState, occasion_of

MAX_ATTEMPTS = 12
FIRST_DELAY_SECONDS = 10
MAX_DELAY_SECONDS = 900


class NotDelivered(Exception):
    """A receiver did not accept a notification."""


class Post(Protocol):
    """Send a body to a URL, or raise NotDelivered; `loopback` permits addresses of this machine."""

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, loopback: bool) -> None: ...


def deliver(mill: Mill, records: Sequence[Mapping[str, Any]], post: Post, now: int) -> list[str]:
    """Handle the messages of an SQS event; return the ids of failed messages."""
    failed: list[str] = []
    for record in records:
        message = _message(mill, record)
        try:
            _handle(mill, json.loads(message.body), post, now)
        except Exception as error:
            # A failing receiver must not stop the delivery to the others.
            _retry_later(mill, message, error)
            failed.append(message.id)
    return failed


def retry_delay_seconds(receives: int) -> int:
    """Return the delay before the next attempt; 0 after the last one."""
    if receives >= MAX_ATTEMPTS:
        return 0
    return min(FIRST_DELAY_SECONDS << (receives - 1), MAX_DELAY_SECONDS)


def _message(mill: Mill, record: Mapping[str, Any]) -> Message:
    receives = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
    queue = mill.settings.notify_queue
    return Message(queue, record["receiptHandle"], record["body"], record["messageId"], receives)


def _retry_later(mill: Mill, message: Message, error: Exception) -> None:
    extra = {
        "action": "deliver-notification",
        "messageId": message.id,
        "tries": message.receives,
        "error": str(error),
    }
    if message.receives >= MAX_ATTEMPTS:
        logger.error("notification not delivered; SQS moves it to the dead-letter queue", extra=extra)
    else:
        known = isinstance(error, NotDelivered | SecretUnavailable)
        logger.warning(
            "notification not delivered; it will be retried", extra=extra, exc_info=None if known else error
        )
    mill.queues.hide([(message, retry_delay_seconds(message.receives))])


def _handle(mill: Mill, body: Mapping[str, Any], post: Post, now: int) -> None:
    if "notice" in body:
        _send(mill, body, post, now)
    else:
        _expand(mill, body["detail-type"], body["detail"])


def _expand(mill: Mill, kind: str, detail: Mapping[str, Any]) -> None:
    """Enqueue one message for each receiver that subscribes to the event."""
    occasion = occasion_of(kind, JobState(detail["state"]))
    bodies = [
        json.dumps({"notice": number, "occasion": occasion, "kind": kind, "detail": detail})
        for number, notice in enumerate(_notices(_document(mill, detail)))
        if occasion in notice.on
    ]
    mill.queues.send_texts(mill.settings.notify_queue, bodies)


def _document(mill: Mill, detail: Mapping[str, Any]) -> Mapping[str, Any]:
    saved = mill.definitions.version(detail["jobName"], detail["definitionVersion"])
    return saved.document if saved else {}


def _notices(document: Mapping[str, Any]) -> list[Notice]:
    return [Notice.model_validate(each) for each in document.get("notify", ())]


def _send(mill: Mill, body: Mapping[str, Any], post: Post, now: int) -> None:
    detail = body["detail"]
    document = _document(mill, detail)
    notice = _notices(document)[body["notice"]]
    event = cloudevent(mill.settings.stack, body["kind"], detail)
    if notice.webhook:
        key = _signing_key(mill, notice.webhook.secret, document)
        _send_to_webhook(mill, notice.webhook, key, event, post, now)
    elif notice.sns:
        subject = f"{body['kind']}: {detail['jobName']}/{detail['trigger']} is {detail['state']}"
        attributes = {"jobName": detail["jobName"], "state": detail["state"], "kind": body["occasion"]}
        Topics(clients.sns()).publish(notice.sns, subject, encoded(event).decode(), attributes)
    extra = {"action": "deliver-notification", "id": event["id"], "notice": body["notice"]}
    logger.info("notification delivered", extra=extra)


def _signing_key(mill: Mill, secret: str, document: Mapping[str, Any]) -> str:
    if is_reference(secret):
        return resolve(mill, secret, document.get("appName") or "")
    return open_private(mill, document["jobName"], secret)


def _send_to_webhook(
    mill: Mill, webhook: Webhook, key: str, event: Mapping[str, Any], post: Post, now: int
) -> None:
    body = encoded(event)
    headers = signed_headers(key, event["id"], now // 1000, body)
    post(webhook.url, headers, body, loopback=mill.settings.notify_loopback)
