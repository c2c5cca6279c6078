"""The HTTP API, all routes but the lease."""

from shardmill.api.app import resolve as handler

__all__ = ["handler"]
