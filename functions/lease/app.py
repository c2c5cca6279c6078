"""POST /v1/work:lease, apart from the other routes because it waits."""

from shardmill.api.app import app_of_module
from shardmill.api.app import resolve as handler

app_of_module("lease")  # imported while Lambda initialises the function: every request needs it

__all__ = ["handler"]
