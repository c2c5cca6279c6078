"""Notifications about jobs: the webhooks and SNS topics of a definition, and their occasions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Model
from shardmill.model.fault import Path
from shardmill.model.json_schema import one_of
from shardmill.model.secrets.secret import MASK, is_reference
from shardmill.model.secrets.secret_fields import Secret
from shardmill.model.states import Occasion

MAX_NOTICES = 10

_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}\Z", re.ASCII)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not text.isprintable() or " " in text:
        raise PydanticCustomError("bad-url", "must be a URL such as https://example.com/hook")
    if parts.username is not None:
        raise PydanticCustomError(
            "bad-url", "must not contain a user or password: receivers verify the signature"
        )
    if parts.scheme == "http" and not _loopback(host):
        raise PydanticCustomError(
            "bad-url", "must be https; http is allowed only for this machine (127.0.0.1)"
        )
    return text


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _topic(text: str) -> str:
    if not _TOPIC.match(text):
        message = "must be the ARN of a standard SNS topic, such as arn:aws:sns:eu-west-1:123456789012:name"
        raise PydanticCustomError("bad-topic", message)
    return text


Url = Annotated[str, Field(max_length=2048), AfterValidator(_url)]
Topic = Annotated[str, AfterValidator(_topic)]


def _default_occasions() -> list[Occasion]:
    return ["failure", "suspension", "lateness"]


class Webhook(Model):
    """`secret`: the key of the signature, or a reference to where it is stored."""

    url: Url
    secret: Secret = Field(repr=False)


class Notice(Model):
    """A receiver and its occasions."""

    model_config = ConfigDict(json_schema_extra=one_of("webhook", "sns"))

    on: list[Occasion] = Field(default_factory=_default_occasions, min_length=1)
    webhook: Webhook | None = None
    sns: Topic | None = None

    @model_validator(mode="after")
    def _one_receiver(self) -> Self:
        if (self.webhook is None) == (self.sns is None):
            raise PydanticCustomError("one-receiver", "needs exactly one of webhook and sns")
        return self


def occasions(notices: Iterable[Notice]) -> set[str]:
    """The occasions of all receivers together."""
    return {occasion for notice in notices for occasion in notice.on}


def masked_notices(notices: Iterable[Notice]) -> list[Notice]:
    """Mask the secrets; references stay, because they are not secret."""
    return [_masked(notice) for notice in notices]


def _masked(notice: Notice) -> Notice:
    if not notice.webhook or is_reference(notice.webhook.secret):
        return notice
    hidden = notice.webhook.model_copy(update={"secret": MASK})
    return notice.model_copy(update={"webhook": hidden})


def notify_faults(notices: Any) -> Iterator[tuple[Path, str, str]]:
    """Faults of secrets that are the mask which answers show."""
    for at, notice in enumerate(notices if isinstance(notices, list) else ()):
        webhook = notice.get("webhook") if isinstance(notice, dict) else None
        if isinstance(webhook, dict) and webhook.get("secret") == MASK:
            message = (
                "is the mask that answers show, and no saved webhook has the secret; give the secret itself"
            )
            yield ("notify", at, "webhook", "secret"), "masked-value", message
