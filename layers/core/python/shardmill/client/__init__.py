"""The Python SDK. `from shardmill import Client` is the short way to it."""

from shardmill.client.api import Client
from shardmill.client.calls import Submitted
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
