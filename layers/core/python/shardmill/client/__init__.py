"""The Python SDK, also available as `from shardmill import Client`."""

from shardmill.client.client import Client
from shardmill.client.errors import (
    BadAnswer,
    BadFile,
    BadName,
    Conflict,
    Forbidden,
    Invalid,
    NotConnected,
    NotFound,
    PreconditionFailed,
    ServerError,
    ShardmillError,
    Throttled,
    TransferFailed,
    Unauthorized,
    Unreachable,
    WaitTimedOut,
)
from shardmill.client.requests import Submitted

__all__ = [
    "BadAnswer",
    "BadFile",
    "BadName",
    "Client",
    "Conflict",
    "Forbidden",
    "Invalid",
    "NotConnected",
    "NotFound",
    "PreconditionFailed",
    "ServerError",
    "ShardmillError",
    "Submitted",
    "Throttled",
    "TransferFailed",
    "Unauthorized",
    "Unreachable",
    "WaitTimedOut",
]
