"""Uploads to the node store: their content, and the limits of a request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from shardmill.engine.errors import BodyTooLarge
from shardmill.engine.mill import Mill


class NewFile(NamedTuple):
    """A file in a request, with its attributes if it has any."""

    name: str
    content: bytes
    attributes: Any = None


class Announced(NamedTuple):
    """A file that S3 will receive."""

    name: str
    size: int
    sha256: str


class Presigned(NamedTuple):
    """An address that takes a file with PUT and these headers, for 15 minutes."""

    url: str
    headers: Mapping[str, str]


def check_size(mill: Mill, body: bytes, request: str) -> None:
    """Raise BodyTooLarge for a body that API Gateway and Lambda would not pass on AWS.

    `request` is the method and address of the request, without a query.
    """
    most = mill.settings.max_body
    if len(body) > most:
        raise BodyTooLarge(
            f"the body has {len(body)} bytes; API Gateway and Lambda pass at most {most}. Upload "
            f"the file to S3 instead: {request}?upload_url&sha256=HEX&size=BYTES (of a part, also &part=N) "
            "answers with an address and headers for a PUT of the file"
        )


def presign_put(mill: Mill, key: str, file: Announced) -> Presigned:
    """S3 verifies the checksum, and keeps it as a label of the object."""
    checksum = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    url = mill.files.put_url(key, ChecksumSHA256=checksum, Metadata={"sha256": file.sha256})
    return Presigned(url, {"x-amz-checksum-sha256": checksum, "x-amz-meta-sha256": file.sha256})
