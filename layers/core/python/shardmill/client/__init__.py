"""The Python SDK. `from shardmill import Client` is the short way to it."""

from shardmill.client.api import Client
from shardmill.client.calls import Submitted
from shardmill.client.errors import (
    BadAnswer,
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
    Unauthorized,
    Unreachable,
    WaitTimedOut,
)

__all__ = [
    "BadAnswer",
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
    "Unauthorized",
    "Unreachable",
    "WaitTimedOut",
]
