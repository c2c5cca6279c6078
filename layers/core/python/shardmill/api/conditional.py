"""Conditional requests: every answer to a GET has an ETag, and a repeated GET is answered with 304."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_JSON = "application/json"
_VERSION_ETAG = re.compile(r'"v\d+"')
_JOB_ETAG = re.compile(r'"job-([0-9a-zA-Z-]+)\.(\d+)\.(\d+)"')


class NotModified(Exception):
    """The caller already has the present content."""

    def __init__(self, etag: str) -> None:
        super().__init__(self.__doc__)
        self.etag = etag


@dataclass(frozen=True, slots=True)
class JobVersion:
    """The version of an ended Job. Its ETag has the Job's id, so that one read shows whether it changed."""

    job_id: str
    run: int
    update_time: int

    @property
    def etag(self) -> str:
        return f'"job-{self.job_id}.{self.run}.{self.update_time}"'


def known_job(event: Mapping[str, Any]) -> JobVersion | None:
    """The version of an ended Job that the caller has."""
    match = _JOB_ETAG.fullmatch(known_etags(event))
    return JobVersion(match[1], int(match[2]), int(match[3])) if match else None


def add_etag(event: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with an ETag of its content, or 304 if the caller has this content.

    An answer that has an ETag of its own keeps it. The ETag of a definition or schedule is its version, for
    If-Match. It does not cover all of the content, such as a suspension or the next firing, and never leads
    to a 304."""
    if event["requestContext"]["http"]["method"] != "GET" or answer["statusCode"] != 200:
        return answer
    headers = {name.lower(): value for name, value in (answer.get("headers") or {}).items()}
    body = answer.get("body") or ""
    if not str(headers.get("content-type", "")).startswith(_JSON) or not body:
        return answer
    if _VERSION_ETAG.fullmatch(headers.get("etag", "")):
        return answer
    etag = headers.get("etag") or f'"{zlib.crc32(body.encode()):08x}{len(body):x}"'
    if is_known(event, etag):
        return not_modified(etag)
    return {**answer, "headers": {**answer["headers"], "etag": etag}}


def is_known(event: Mapping[str, Any], etag: str) -> bool:
    """Whether the caller has the content of this ETag."""
    return etag in [tag.strip() for tag in known_etags(event).split(",")]


def known_etags(event: Mapping[str, Any]) -> str:
    headers = event.get("headers") or {}
    return next((str(value) for name, value in headers.items() if name.lower() == "if-none-match"), "")


def not_modified(etag: str) -> dict[str, Any]:
    return {"statusCode": 304, "headers": {"etag": etag}, "body": "", "isBase64Encoded": False}
