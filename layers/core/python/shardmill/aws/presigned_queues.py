"""Presigned ReceiveMessage requests: the holder of one can wait at SQS without credentials."""

from __future__ import annotations

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from shardmill.aws import clients

_VERSION = "2012-11-05"  # of SQS's query protocol, in which every parameter of a request is in its URL


def presign_receive(url: str, *, most: int, wait: int, hide: int, valid_seconds: int) -> str:
    """A GET of SQS's query protocol that receives messages of a queue; its parameters cannot be changed.

    SQS compares the time of the signature with its own clock, so the receiver's clock does not matter.
    """
    parameters = {
        "Action": "ReceiveMessage",
        "Version": _VERSION,
        "MaxNumberOfMessages": most,
        "WaitTimeSeconds": wait,
        "VisibilityTimeout": hide,
        "AttributeName.1": "ApproximateReceiveCount",
    }
    request = AWSRequest("GET", url, params={name: str(value) for name, value in parameters.items()})
    SigV4QueryAuth(clients.credentials(), "sqs", clients.sqs().meta.region_name, valid_seconds).add_auth(
        request
    )
    return str(request.url)
