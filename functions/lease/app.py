"""POST /v1/work:lease, apart from the other routes because it waits."""

from shardmill.api.lease import resolve as handler

__all__ = ["handler"]
