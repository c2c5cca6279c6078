"""SQS's answers to presigned ReceiveMessage requests: XML, after a check of signature, age and permission.

moto answers such a GET with JSON, whatever its signature and age, and ignores the attributes it asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from xml.sax.saxutils import escape

import httpx
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.aws_rules.permissions import Permissions
from support.moto.cloud import Cloud
from support.moto.stack import ACCOUNT, REGION
from support.watch import observing

SIGNING_KEY = ("AKIATEST", "signing-secret")
Clock = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class PresignedSqs:
    """Answers GETs; `wait` limits how long a request is held, so that tests can end."""

    def __init__(self, cloud: Cloud, *, wait: int = 0, clock: Clock = _now) -> None:
        self.cloud = cloud
        self.wait = wait
        self.clock = clock
        self.requests: list[str] = []
        self._permissions = Permissions(cloud.stack.statements(), ACCOUNT, REGION)

    def __call__(self, url: str) -> httpx.Response:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        queue = parts.path.rsplit("/", 1)[-1]
        self.requests.append(queue)
        if not _is_signed(url, query):
            return _error(403, "SignatureDoesNotMatch")
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if self.clock() > signed + timedelta(seconds=int(query["X-Amz-Expires"])):
            return _error(403, "RequestExpired")
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
        action, role = f"sqs:{query['Action']}", query["X-Amz-Security-Token"]
        if not self._permissions.allows(role, action, arn):
            return _error(403, "AccessDenied")
        sqs = self.cloud.clients.sqs
        with observing():
            answer = sqs.receive_message(
                QueueUrl=urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
                MaxNumberOfMessages=int(query["MaxNumberOfMessages"]),
                WaitTimeSeconds=min(int(query["WaitTimeSeconds"]), self.wait),
                VisibilityTimeout=int(query["VisibilityTimeout"]),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return httpx.Response(200, text=_xml(list(answer.get("Messages", []))))


def _is_signed(url: str, query: dict[str, str]) -> bool:
    signature = query.pop("X-Amz-Signature", "")
    request = AWSRequest("GET", f"{url.split('?')[0]}?{urlencode(query)}")
    request.context["timestamp"] = query.get("X-Amz-Date", "")
    auth = SigV4QueryAuth(Credentials(*SIGNING_KEY, query.get("X-Amz-Security-Token")), "sqs", REGION)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return bool(signature == auth.signature(text, request))


def _xml(messages: list[Any]) -> str:
    listed = "".join(
        f"<Message><MessageId>{each['MessageId']}</MessageId>"
        f"<ReceiptHandle>{escape(each['ReceiptHandle'])}</ReceiptHandle><Body>{escape(each['Body'])}</Body>"
        "<Attribute><Name>ApproximateReceiveCount</Name>"
        f"<Value>{each['Attributes']['ApproximateReceiveCount']}</Value></Attribute></Message>"
        for each in messages
    )
    return (
        '<?xml version="1.0"?><ReceiveMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        f"<ReceiveMessageResult>{listed}</ReceiveMessageResult></ReceiveMessageResponse>"
    )


def _error(status: int, code: str) -> httpx.Response:
    return httpx.Response(status, text=f"<ErrorResponse><Error><Code>{code}</Code></Error></ErrorResponse>")
