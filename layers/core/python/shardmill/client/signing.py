"""Sign requests to the API with the AWS credentials of this process (Signature Version 4)."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from urllib.parse import quote

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from shardmill.aws import clients

SERVICE = "execute-api"
_HOST = re.compile(rf"\.{SERVICE}\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$")
_SIGNED = ("content-type", "content-encoding", "if-match", "if-none-match")


class CannotSign(httpx.RequestError):
    """A request cannot be signed: there are no AWS credentials, or the region is not known."""


class SignedRequests(httpx.Auth):
    """Signs each request when it is sent, so that a retry has a new signature."""

    requires_request_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        # API Gateway decodes and encodes the query before it checks the signature: a space is %20 there.
        pairs = [(quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in _pairs(request)]
        query = "&".join(f"{name}={value}" for name, value in pairs)
        request.url = request.url.copy_with(query=query.encode() or None)
        headers = {name: request.headers[name] for name in _SIGNED if name in request.headers}
        signed = AWSRequest(request.method, str(request.url), headers, request.content or b"")
        try:
            SigV4Auth(clients.credentials(), SERVICE, region_of(request.url.host)).add_auth(signed)
        except BotoCoreError as error:
            raise CannotSign(f"the request cannot be signed: {error}", request=request) from error
        request.headers.update(dict(signed.headers.items()))
        yield request


def _pairs(request: httpx.Request) -> list[tuple[str, str]]:
    return list(request.url.params.multi_items())


def region_of(host: str) -> str:
    """The region in the name of an API's host; for other names, the region of the environment."""
    found = _HOST.search(host)
    region = found[1] if found else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise CannotSign(f"the region of {host} is not known; set AWS_REGION")
    return region
